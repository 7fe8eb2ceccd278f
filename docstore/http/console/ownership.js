// Rights to act: lists of locks, elections, leases, roles and groups; holders.js shows one of them.

import { empty, fill, h } from "/core/ui/dom.js";
import { line } from "/core/ui/json.js";
import { nameOf, OWNERSHIP, toHolder, toOwnership } from "/core/ui/places.js";
import { refreshList } from "/core/ui/refresh.js";
import { many, number, span } from "/core/ui/words.js";

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

export async function ownership(place, route, signal) {
  const kind = KINDS[route.link.slice(1)] ? route.link.slice(1) : "locks";
  const [title, columns, none, command] = KINDS[kind];
  const shown = h("div", {});
  fill(place, h("h1", {}, "Ownership"), tabs(kind), shown);
  await refreshList(shown, signal, {
    path: `/core/${kind}`, word: title.slice(0, -1).toLowerCase(),
    columns: [NAME, ...columns(kind)], nothing: empty(none, h("p", {}, h("code", {}, command))),
  });
}

function tabs(kind) {
  const link = (each) => h("a", {
    href: toOwnership(each), "aria-current": each === kind && "page",
  }, KINDS[each][0]);
  return h("nav", { class: "tabs", "aria-label": "Kinds" }, Object.keys(KINDS).map(link));
}

const NAME = ["name", ({ link }) => h("a", { href: toHolder(link) }, nameOf(link)), "code"];

function turns(kind) {
  return [
    [kind === "locks" ? "held by" : "leader", ({ holder }) => holder?.candidate
      ?? h("span", { class: "quiet" }, "free")],
    ["token", (each) => number(each.token), "number"],
    ["waiting", ({ queue = [] }) => queue.map(({ candidate }) => candidate).join(", ") || "–",
      "cell"],
    ["lease", ({ holder }) => (holder?.lease
      ? h("a", { href: toHolder(holder.lease) }, nameOf(holder.lease)) : "–"), "code"],
    ...(kind === "elections" ? [["value", ({ holder }) =>
      (holder ? line(JSON.stringify(holder.value)) : "–"), "code excerpt"]] : []),
  ];
}

function leases() {
  return [
    ["state", ({ state, why }) => (why ? `${state}: ${why}` : state)],
    ["holder", ({ holder }) => holder || "–"],
    ["time to live", ({ ttlMs }) => span(ttlMs), "number"],
    ["attached", ({ attached = [] }) => many(attached.length, "document"), "number"],
  ];
}

function groups(kind) {
  const isGroup = kind === "groups";
  return [
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
