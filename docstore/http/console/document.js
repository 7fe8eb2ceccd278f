// One document: what it says, its versions, where it is and why; changing and deleting it.

import { button, dialog, facts, field, fill, h, table } from "/core/ui/dom.js";
import { authors, indented, membersOf, objectOf } from "/core/ui/json.js";
import { ask, encoded, page, Refused } from "/core/ui/node.js";
import { FACTORIES, toChanges, toDocument, toList } from "/core/ui/places.js";
import { many, number, time } from "/core/ui/words.js";

const ROWS_MAX = 30;
const CHANGED = "It has changed since you have opened it. Copy what you have written, and open it "
  + "again.";

export async function document_(place, route, signal) {
  const { link, query } = route;
  const version = query.get("version");
  const path = encoded(link);
  const past = version ? `?${new URLSearchParams({ documentVersion: version })}` : "";
  const [said, versions, where] = await Promise.all([
    ask("GET", `${path}${past}`, { signal }).catch(absent),
    page(`${path}/versions?limit=20`, signal).catch(() => ({ versions: [] })),
    page(`${path}/explain`, signal).catch(() => null),
  ]);
  if (signal.aborted) return;
  const content = h("section", {});
  fill(place, trail(link), h("h1", { class: "code" }, link), content,
    versionsOf(link, versions, version), where && explained(where));
  if (said instanceof Refused) fill(content, h("p", { class: "warning" }, gone(said)));
  else read(content, link, said, version);
}

export async function newDocument(place, { link }) {
  const placeholder = "one is made if it is left empty";
  const [label, input] = field("Its name", "name", { class: "code long", placeholder });
  const content = h("section", {});
  fill(place, trail(`${link}/`),
    h("h1", {}, "New document in ", h("span", { class: "code" }, link)),
    h("p", { class: "line" }, label, input), content);
  const save = async (text) => {
    const name = input.value.trim();
    const body = name ? withSelfLink(text, `${link}/${name}`) : text;
    const { headers } = await ask("POST", encoded(link), { body });
    location.hash = toDocument(decodeURIComponent(headers.get("Location")));
  };
  editor(content, "{\n  \n}", save, () => history.back());
}

function absent(error) {
  if (error instanceof Refused && [404, 410].includes(error.status)) return error;
  throw error;
}

function gone(refused) {
  const version = refused.headers.get("Docstore-Version");
  if (version === null) return refused.message;
  return `It was deleted; the deletion is its version ${version}.`;
}

function trail(link) {
  const factory = link.slice(0, link.lastIndexOf("/"));
  return h("p", { class: "trail" }, h("a", { href: FACTORIES }, "Documents"), " / ",
    h("a", { href: toList(factory), class: "code" }, factory));
}

function read(content, link, said, version) {
  const store = objectOf(said.text);
  const told = (name) => JSON.parse(store[name] ?? "null");
  const expires = told("documentExpirationTimeMicros") || null;
  fill(content,
    facts([
      ["version", version ? `${version}, of the past` : told("documentVersion")],
      ["written", time(told("documentUpdateTimeMicros"))],
      ["by", `${told("documentUpdateAction")} on ${told("documentOwner")}`],
      ["made by", nameOf(told("documentAuthPrincipalLink"))],
      ["epoch", told("documentEpoch")],
      ["kind", told("documentKind")],
      ["expires", expires && time(expires)],
      ["lease", told("documentLeaseLink")],
    ]),
    h("pre", { class: "code" }, authors(said.text)),
    h("p", { class: "buttons" }, version
      ? button("The current version", toDocument(link))
      : [
        h("button", { type: "button", onClick: () => edit(content, link, said) }, "Change"),
        h("button", { type: "button", onClick: () => remove(content, link, said) }, "Delete"),
        button("Changes", toChanges(link)),
      ]));
}

function edit(content, link, said) {
  const save = async (body) => {
    await ask("PUT", encoded(link), { body, headers: ifStill(said) });
    again();
  };
  editor(content, authors(said.text), save, () => read(content, link, said, null));
}

// That it is what was read, or is left as it is.
const ifStill = (said) => ({ "If-Match": said.headers.get("ETag") });

// A text to be changed. save(text): throws what the node says to it.
function editor(content, text, save, cancel) {
  const rows = Math.min(ROWS_MAX, text.split("\n").length + 4);
  const area = h("textarea", { class: "code", spellcheck: "false", rows, "aria-label": "JSON" });
  area.value = text;
  const told = h("p", { role: "alert" });
  const saving = h("button", { class: "main" }, "Save");
  const submit = async (event) => {
    event.preventDefault();
    saving.disabled = true;
    fill(told);
    try {
      JSON.parse(area.value); // Only whether it is JSON: what is sent is the text.
      await save(area.value);
    } catch (error) {
      told.className = "warning";
      fill(told, reason(error));
    } finally {
      saving.disabled = false;
    }
  };
  const indent = () => { area.value = indented(area.value); };
  fill(content, h("form", { onSubmit: submit }, area, told, h("p", { class: "buttons" }, saving,
    h("button", { type: "button", onClick: cancel }, "Cancel"),
    h("button", { type: "button", onClick: indent }, "Indent"))));
  area.focus();
}

function reason(error) {
  if (error instanceof SyntaxError) return `This is no JSON: ${error.message}`;
  if (error.status === 412) return CHANGED;
  return error.message;
}

async function remove(content, link, said) {
  const question = [h("h2", {}, "Delete it?"), h("p", { class: "code" }, link),
    h("p", {}, "Its versions stay for as long as history is kept.")];
  if (await dialog(question, [["", "Cancel"], ["delete", "Delete", "main"]]) !== "delete") return;
  try {
    await ask("DELETE", encoded(link), { headers: ifStill(said) });
    again();
  } catch (error) {
    content.append(h("p", { class: "warning", role: "alert" }, reason(error)));
  }
}

function again() {
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

function withSelfLink(text, link) {
  const kept = membersOf(text).filter(([name]) => name !== '"documentSelfLink"');
  const all = [['"documentSelfLink"', JSON.stringify(link)], ...kept];
  return `{${all.map((pair) => pair.join(":")).join(",")}}`;
}

function versionsOf(link, found, version) {
  const latest = found.versions[0]?.documentVersion;
  const isShown = (each) => String(each) === (version ?? String(latest));
  return h("section", {}, h("h2", {}, "Versions"), table([
    ["version", ({ documentVersion: each }) => h("a", {
      href: toDocument(link, each === latest ? "" : each),
      "aria-current": isShown(each) && "true",
    }, number(each)), "number"],
    ["epoch", (each) => number(each.documentEpoch), "number"],
    ["written", (each) => time(each.documentUpdateTimeMicros)],
    ["by", (each) => each.documentUpdateAction],
    ["on", (each) => each.documentOwner],
    ...(found.versions.some((each) => each.documentAuthPrincipalLink)
      ? [["made by", (each) => nameOf(each.documentAuthPrincipalLink) ?? ""]] : []),
  ], found.versions), found.nextPageLink && h("p", { class: "quiet" }, "Older ones follow."));
}

// Of whom a version says that he has made it: the link's last segment.
function nameOf(link) {
  return link && decodeURIComponent(link.slice(link.lastIndexOf("/") + 1));
}

function explained(where) {
  const copies = Object.fromEntries(where.replicas.map((each) => [each.id, each]));
  return h("section", {}, h("h2", {}, "Where it is"),
    facts([
      ["slot", `${number(where.slot)} of ${number(where.slots)}`],
      ["owner", where.owner ?? "nobody now"],
      ["preferred owner", where.preferredOwner],
      ["takes over next", where.takesOverNext ?? "nobody could"],
      ["copies", many(where.replicas.length, "node")],
    ]),
    table([
      ["node", (each) => each.id, "name"],
      ["distance", (each) => distance(each.distance), "number"],
      ["version", (each) => number(copies[each.id]?.version), "number"],
      ["log ends at", (each) => number(copies[each.id]?.end), "number"],
      ["decided up to", (each) => number(copies[each.id]?.decided), "number"],
      ["copy", (each) => copy(copies[each.id])],
    ], where.ranking));
}

// A share of the whole key space, in millionths: 256 bits tell nobody anything.
function distance(hex) {
  return `${number(Math.round((parseInt(hex.slice(0, 8), 16) / 2 ** 32) * 1e6))} ppm`;
}

function copy(held) {
  if (!held) return "none";
  return held.error ?? (held.deleted ? `${held.status}, deleted` : held.status);
}
