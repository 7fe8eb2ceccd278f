// Rights to act: locks, elections and leases; roles and groups are in groups.js.

import { empty, fill, h, table } from "/core/ui/dom.js";
import { line } from "/core/ui/json.js";
import { ask, encoded, methodsOf, page, repeat } from "/core/ui/node.js";
import { OWNERSHIP, toDocument, toGroup, toList, toOwnership } from "/core/ui/places.js";
import { many, number, span } from "/core/ui/words.js";

const LIMIT = 200;
const LOOK_AGAIN_MS = 3_000;
const KINDS = {
  locks: ["Locks", turns, "No process has taken a lock yet. Take one:",
    "docstore lock NAME -- COMMAND"],
  elections: ["Elections", turns, "No election has begun yet. Begin one:",
    "docstore election run NAME -- COMMAND"],
  leases: ["Leases", leases, "No lease lives. Take one:", "docstore lease create --ttl 30"],
  roles: ["Roles", groups, "No roles are made yet. Make some:",
    "curl --json '{\"name\": \"pricing\", \"partitions\": 12}' NODE/core/roles"],
  groups: ["Groups", groups, "No group reads a topic yet. Begin one:",
    "docstore consume TOPIC --group NAME"],
};

// The list of a kind, read again every few seconds.
export async function ownership(place, route, signal) {
  const kind = KINDS[route.link.slice(1)] ? route.link.slice(1) : "locks";
  const [title, columns, none, command] = KINDS[kind];
  const path = `/core/${kind}`;
  const shown = h("div", {});
  const told = h("p", { role: "alert" });
  fill(place, h("h1", {}, "Ownership"), tabs(kind), told, shown);
  await repeat(LOOK_AGAIN_MS, signal, async () => {
    const found = await page(`${path}?$expand=true&$limit=${LIMIT}`, signal);
    const methods = await firstMethods(found, signal);
    if (signal.aborted) return;
    const rows = Object.entries(found.documents ?? {}).map(([link, each]) => ({ link, ...each }));
    const hint = empty(none, h("p", {}, h("code", {}, command)));
    if (!shown.contains(document.activeElement)) {
      fill(shown, h("h2", {}, title),
        h("p", { class: "quiet" }, many(rows.length, title.slice(0, -1).toLowerCase()),
          found.nextPageLink && [", more follow in ", h("a", { href: toList(path) }, "the list")]),
        table(columns(kind, methods, told), rows, hint));
    }
  });
}

// All documents of a factory have the same methods.
async function firstMethods({ documentLinks = [] }, signal) {
  return documentLinks.length > 0 ? methodsOf(encoded(documentLinks[0]), signal) : new Set();
}

function tabs(kind) {
  const link = (each) => h("a", {
    href: toOwnership(each), "aria-current": each === kind && "page",
  }, KINDS[each][0]);
  return h("nav", { class: "tabs", "aria-label": "Kinds" }, Object.keys(KINDS).map(link));
}

const idOf = (link) => link.slice(link.lastIndexOf("/") + 1);
const name = (to) => ["name", ({ link }) => h("a", { href: to(link) }, idOf(link)), "code name"];

function turns(kind) {
  return [
    name(toDocument),
    [kind === "locks" ? "held by" : "leader", ({ holder }) => holder?.candidate
      ?? h("span", { class: "quiet" }, "free")],
    ["token", (each) => number(each.token), "number"],
    ["waiting", ({ queue = [] }) => queue.map(({ candidate }) => candidate).join(", ") || "–"],
    ["lease", ({ holder }) => (holder
      ? h("a", { href: toDocument(holder.lease) }, idOf(holder.lease)) : "–"), "code"],
    ...(kind === "elections" ? [["value", ({ holder }) =>
      (holder ? line(JSON.stringify(holder.value)) : "–"), "code excerpt"]] : []),
  ];
}

function leases(kind, methods, told) {
  const expire = ({ link }) => async () => {
    try {
      await ask("PATCH", encoded(link), { body: JSON.stringify({ kind: "ExpireRequest" }) });
      fill(told, `${idOf(link)} is renewed no longer; it ends when its time runs out.`);
    } catch (error) {
      fill(told, error.message);
    }
  };
  const ends = (each) => methods.has("PATCH") && each.state === "alive"
    && h("button", { type: "button", onClick: expire(each) }, "Revoke");
  return [
    name(toDocument),
    ["state", ({ state, why }) => (why ? `${state}: ${why}` : state)],
    ["holder", ({ holder }) => holder || "–"],
    ["time to live", ({ ttlMs }) => span(ttlMs), "number"],
    ["attached", ({ attached = [] }) => attached.map((link) =>
      [h("a", { href: toDocument(link) }, link), " "]), "code"],
    ["action", ends],
  ];
}

function groups(kind) {
  const isGroup = kind === "groups";
  return [
    name((link) => toGroup(kind, idOf(link))),
    ["state", ({ state = "" }) => state.toLowerCase()],
    [isGroup ? "topics" : "roles", (each) => (isGroup
      ? Object.keys(each.topics ?? {}).join(", ") : number(each.partitions))],
    ["members", ({ members = [] }) => number(members.length), "number"],
    ["mode", ({ settings }) => settings?.mode ?? "–"],
    ["session", ({ settings }) => span(settings?.sessionMs)],
  ];
}

export const trailOf = (kind) =>
  h("p", { class: "trail" }, h("a", { href: OWNERSHIP }, "Ownership"), " / ",
    h("a", { href: toOwnership(kind) }, KINDS[kind][0]));
