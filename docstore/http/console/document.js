// One document: what it says, its versions, where it is and why; changing and deleting it.

import { dialog, facts, fill, h, table } from "/core/ui/dom.js";
import { authors, indented, membersOf, objectOf } from "/core/ui/json.js";
import { ask, encoded, page, Refused } from "/core/ui/node.js";
import { many, number, time } from "/core/ui/words.js";

export async function document_(place, route, signal) {
  const { link, query } = route;
  const version = query.get("version");
  const [said, versions, where] = await Promise.all([
    ask("GET", `${encoded(link)}${version ? `?documentVersion=${encodeURIComponent(version)}` : ""}`, { signal })
      .catch(absent),
    page(`${encoded(link)}/versions?limit=20`, signal).catch(() => ({ versions: [] })),
    page(`${encoded(link)}/explain`, signal).catch(() => null),
  ]);
  if (signal.aborted) return;
  const content = h("section", {});
  fill(place, trail(link), h("h1", { class: "code" }, link), content,
    history(link, versions, version), where && explained(where));
  if (said instanceof Refused) fill(content, h("p", { class: "warning" }, gone(said)));
  else read(content, link, said, version);
}

export async function newDocument(place, { link }) {
  const id = h("input", { id: "id", class: "code", spellcheck: "false", placeholder: "one is made if it is left empty" });
  const content = h("section", {});
  fill(place, trail(`${link}/`), h("h1", {}, "New document in ", h("span", { class: "code" }, link)),
    h("p", { class: "line" }, h("label", { for: "id" }, "Its name"), id), content);
  editor(content, "{\n  \n}", async (text) => {
    const name = id.value.trim();
    const named = name ? withMember(text, '"documentSelfLink"', JSON.stringify(`${link}/${name}`)) : text;
    const { headers } = await ask("POST", encoded(link), { body: named });
    location.hash = `#/document${headers.get("Location")}`;
  }, () => history.back());
}

function absent(error) {
  if (error instanceof Refused && [404, 410].includes(error.status)) return error;
  throw error;
}

function gone(refused) {
  const version = refused.headers.get("Docstore-Version");
  return version === null ? refused.message : `It was deleted; the deletion is its version ${version}.`;
}

function trail(link) {
  const factory = link.slice(0, link.lastIndexOf("/"));
  return h("p", { class: "trail" }, h("a", { href: "#/factories" }, "Documents"), " / ",
    h("a", { href: `#/list${encoded(factory)}`, class: "code" }, factory));
}

function read(content, link, said, version) {
  const store = objectOf(said.text);
  const told = (name) => (store[name] === undefined ? null : JSON.parse(store[name]));
  const change = () => edit(content, link, said);
  fill(content,
    facts([
      ["version", version ? `${told("documentVersion")}, of the past` : told("documentVersion")],
      ["written", time(told("documentUpdateTimeMicros"))],
      ["by", `${told("documentUpdateAction")} on ${told("documentOwner")}, epoch ${told("documentEpoch")}`],
      ["kind", told("documentKind")],
      ["expires", store.documentExpirationTimeMicros > 0 ? time(told("documentExpirationTimeMicros")) : null],
      ["lease", told("documentLeaseLink")],
    ]),
    h("pre", { class: "code" }, authors(said.text)),
    h("p", { class: "buttons" }, version
      ? h("a", { href: `#/document${encoded(link)}`, class: "button" }, "The current version")
      : [
        h("button", { type: "button", onClick: change }, "Change"),
        h("button", { type: "button", onClick: () => remove(content, link, said) }, "Delete"),
        h("a", { href: `#/changes?prefix=${encodeURIComponent(link)}`, class: "button" }, "Changes"),
      ]));
}

function edit(content, link, said) {
  editor(content, authors(said.text), async (text) => {
    await ask("PUT", encoded(link), { body: text, headers: { "If-Match": said.headers.get("ETag") } });
    again();
  }, () => read(content, link, said, null));
}

// A text to be changed. save(text): throws what the node says to it.
function editor(content, text, save, cancel) {
  const area = h("textarea", { class: "code", spellcheck: "false", rows: Math.min(30, text.split("\n").length + 4), "aria-label": "JSON" });
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
  fill(content, h("form", { onSubmit: submit }, area, told, h("p", { class: "buttons" }, saving,
    h("button", { type: "button", onClick: cancel }, "Cancel"),
    h("button", { type: "button", onClick: () => { area.value = indented(area.value); } }, "Indent"))));
  area.focus();
}

function reason(error) {
  if (error instanceof SyntaxError) return `This is no JSON: ${error.message}`;
  if (error.status === 412) return "It has changed since you have opened it. Copy what you have written, and open it again.";
  return error.message;
}

async function remove(content, link, said) {
  const question = [h("h2", {}, "Delete it?"), h("p", { class: "code" }, link),
    h("p", {}, "Its versions stay for as long as history is kept.")];
  if (await dialog(question, [["", "Cancel"], ["delete", "Delete", "main"]]) !== "delete") return;
  try {
    await ask("DELETE", encoded(link), { headers: { "If-Match": said.headers.get("ETag") } });
    again();
  } catch (error) {
    content.append(h("p", { class: "warning", role: "alert" }, reason(error)));
  }
}

function again() {
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

function withMember(text, name, value) {
  const kept = membersOf(text).filter(([each]) => each !== name);
  return `{${[[name, value], ...kept].map((pair) => pair.join(":")).join(",")}}`;
}

function history(link, found, version) {
  const latest = found.versions[0]?.documentVersion;
  const at = (each) => (each.documentVersion === latest ? "" : `?version=${each.documentVersion}`);
  return h("section", {}, h("h2", {}, "Versions"), table([
    ["version", (each) => h("a", {
      href: `#/document${encoded(link)}${at(each)}`,
      "aria-current": String(each.documentVersion) === (version ?? String(latest)) ? "true" : null,
    }, number(each.documentVersion)), "number"],
    ["epoch", (each) => number(each.documentEpoch), "number"],
    ["written", (each) => time(each.documentUpdateTimeMicros)],
    ["by", (each) => each.documentUpdateAction],
    ["on", (each) => each.documentOwner],
  ], found.versions), found.nextPageLink && h("p", { class: "quiet" }, "Older ones follow."));
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
