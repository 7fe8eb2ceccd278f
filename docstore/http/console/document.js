// One document: what it says, its versions, where it is and why; changing and deleting it.

import { button, empty, facts, fill, h, table } from "/core/ui/dom.js";
import { keep } from "/core/ui/export.js";
import { form, Invalid, jsonIn } from "/core/ui/form.js";
import { authors, compact, indented, membersOf, objectOf, written } from "/core/ui/json.js";
import { ask, encoded, methodsOf, page, Refused } from "/core/ui/node.js";
import {
  above, again, FACTORIES, nameOf, toChanges, toDocument, toList,
} from "/core/ui/places.js";
import { action } from "/core/ui/questions.js";
import { tree } from "/core/ui/tree.js";
import { mayLeave } from "/core/ui/unsaved.js";
import { bytes, many, number, time } from "/core/ui/words.js";

const ROWS_MAX = 30;
const CHANGED = "It has changed since you have opened it, and nothing was written. Open it again; "
  + "copy your text before.";

export async function document_(place, route, signal) {
  const { link, query } = route;
  const version = query.get("version");
  const path = encoded(link);
  const past = version ? `?${new URLSearchParams({ documentVersion: version })}` : "";
  const content = h("section", {});
  const about = h("div", {});
  fill(place, trail(above(link)), h("h1", { class: "code" }, link), content, about);
  const later = Promise.all([
    page(`${path}/versions?limit=20`, signal).catch(() => ({ versions: [] })),
    page(`${path}/explain`, signal).catch(() => null),
  ]);
  const [said, methods] = await Promise.all([
    ask("GET", `${path}${past}`, { signal }).catch(absent), methodsOf(path, signal),
  ]);
  if (signal.aborted) return;
  if (said instanceof Refused) fill(content, absentNote(above(link), said));
  else read({ content, link, said, version, methods, signal });
  const [versions, where] = await later;
  fill(about, versions.versions.length > 0 && versionsOf(link, versions, version),
    where && explained(where));
}

export async function newDocument(place, { link }, signal) {
  const content = h("section", {});
  fill(place, trail(link),
    h("h1", {}, "New document in ", h("span", { class: "code" }, link)), content);
  const name = {
    name: "name", title: "Name", class: "code", about: ["documentSelfLink", "already-exists"],
    hint: "The last part of its path. The node chooses one if you leave it empty.",
  };
  const save = async ({ name: said, text }) => {
    const id = said.trim();
    const body = id ? withSelfLink(text, `${link}/${id}`) : text;
    const { headers } = await ask("POST", encoded(link), { body });
    return () => { location.hash = toDocument(decodeURIComponent(headers.get("Location"))); };
  };
  const cancel = () => { location.hash = toList(link); };
  editor(content, "{\n  \n}", { fields: [name], save, cancel, signal });
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

function trail(factory) {
  return h("p", { class: "trail" }, h("a", { href: FACTORIES }, "Documents"), " / ",
    h("a", { href: toList(factory), class: "code" }, factory));
}

function absentNote(factory, refused) {
  return empty(gone(refused), factory && button(`Documents of ${factory}`, toList(factory)));
}

function read(shown) {
  const { content, link, said, version, methods } = shown;
  const store = objectOf(said.text);
  const told = (name) => JSON.parse(store[name] ?? "null");
  const expires = told("documentExpirationTimeMicros") || null;
  const text = authors(said.text);
  const onDownload = () => keep(`${nameOf(link)}.json`, [indented(text)]);
  fill(content,
    facts([
      ["version", version ? `${version}, of the past` : told("documentVersion")],
      ["written", time(told("documentUpdateTimeMicros"))],
      ["by", `${told("documentUpdateAction")} on ${told("documentOwner")}`],
      ["made by", authorOf(told("documentAuthPrincipalLink"))],
      ["epoch", told("documentEpoch")],
      ["kind", told("documentKind")],
      ["expires", expires && time(expires)],
      ["lease", told("documentLeaseLink")],
      ["size", bytes(new Blob([text]).size)],
    ]),
    tree(text),
    h("p", { class: "buttons" },
      version && button("The current version", toDocument(link)),
      !version && methods.has("PUT")
        && h("button", { type: "button", onClick: () => edit(shown) }, "Change"),
      !version && methods.has("DELETE") && remove(shown),
      !version && button("Changes", toChanges(link)),
      h("button", { type: "button", onClick: onDownload }, "Download")));
}

function edit(shown) {
  const { content, link, said, signal } = shown;
  const save = async ({ text }) => {
    await ask("PUT", encoded(link), { body: text, headers: ifStill(said) });
    return again;
  };
  const cancel = async () => { if (await mayLeave()) read(shown); };
  editor(content, indented(authors(said.text)), { save, cancel, signal });
}

// The condition that the document is still the one that was read.
const ifStill = (said) => ({ "If-Match": said.headers.get("ETag") });

// A text to be changed. save(values): resolves with what to do next; throws the node's refusal,
// which is shown while the text stays.
function editor(content, value, { fields = [], save, cancel, signal }) {
  const rows = Math.min(ROWS_MAX, value.split("\n").length + 4);
  const area = { name: "text", title: "JSON", kind: "area", rows, value };
  const send = async (values, release) => {
    const next = await save({ ...values, text: checked(values.text) }).catch(changedMeanwhile);
    release();
    next();
  };
  const shown = form({ fields: [...fields, area], title: "Save", send, cancel, signal });
  const input = shown.querySelector("textarea");
  const onClick = () => {
    try {
      input.value = indented(jsonIn("text", input.value));
    } catch (error) {
      shown.refused(error);
    }
  };
  shown.querySelector(".buttons").append(h("button", { type: "button", onClick }, "Indent"));
  fill(content, shown);
  shown.querySelector("input, textarea").focus();
}

function checked(text) {
  return compact(jsonIn("text", text) || "{}");
}

function changedMeanwhile(error) {
  if (error.status === 412) throw new Invalid("text", CHANGED);
  throw error;
}

function remove({ link, said }) {
  const act = () => ask("DELETE", encoded(link), { headers: ifStill(said) })
    .catch(changedMeanwhile);
  return action("Delete", link, ["Its versions stay for as long as history is kept."],
    ["Delete", act]);
}

// An object with the link of a document; what is no object is left to the node to refuse.
function withSelfLink(text, link) {
  if (!text.startsWith("{")) return text;
  const kept = membersOf(text).filter(([name]) => name !== '"documentSelfLink"');
  return written([['"documentSelfLink"', JSON.stringify(link)], ...kept]);
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
      ? [["made by", (each) => authorOf(each.documentAuthPrincipalLink) ?? ""]] : []),
  ], found.versions), found.nextPageLink && h("p", { class: "quiet" }, "Older ones follow."));
}

// The user who made a version. link: of the user's page.
const authorOf = (link) => link && decodeURIComponent(nameOf(link));

function explained(where) {
  const copies = Object.fromEntries(where.replicas.map((each) => [each.id, each]));
  return h("section", {}, h("h2", {}, "Where it is"),
    facts([
      ["slot", `${number(where.slot)} of ${number(where.slots)}`],
      ["owner", where.owner ?? "none now"],
      ["preferred owner", where.preferredOwner],
      ["takes over next", where.takesOverNext ?? "no node could"],
      ["copies", many(where.replicas.length, "node")],
    ]),
    table([
      ["node", (each) => each.id],
      ["distance", (each) => distance(each.distance), "number"],
      ["version", (each) => number(copies[each.id]?.version), "number"],
      ["log ends at", (each) => number(copies[each.id]?.end), "number"],
      ["decided up to", (each) => number(copies[each.id]?.decided), "number"],
      ["copy", (each) => copy(copies[each.id])],
    ], where.ranking));
}

// A share of the whole key space, in millionths: 256 bits tell a reader nothing.
function distance(hex) {
  return `${number(Math.round((parseInt(hex.slice(0, 8), 16) / 2 ** 32) * 1e6))} ppm`;
}

function copy(held) {
  if (!held) return "none";
  return held.error ?? (held.deleted ? `${held.status}, deleted` : held.status);
}
