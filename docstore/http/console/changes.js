// A live list of changes as they are decided, the newest first.

import { empty, fill, h, wide } from "/core/ui/dom.js";
import { follow } from "/core/ui/events.js";
import { form } from "/core/ui/form.js";
import { line as inOneLine, objectOf } from "/core/ui/json.js";
import { Refused } from "/core/ui/node.js";
import { go, toChanges, toDocument } from "/core/ui/places.js";
import { many, time } from "/core/ui/words.js";

const SHOWN_MAX = 200;
const PREFIX = {
  name: "prefix", title: "At and below", class: "code", placeholder: "everything", about: ["path"],
};

export async function changes(place, route, signal) {
  const prefix = route.query.get("prefix") ?? "";
  const state = h("span", { class: "quiet", "aria-live": "polite" }, "connecting");
  const rows = h("tbody", {});
  let count = 0;
  const nothing = empty("Nothing has changed since you opened this page. Write a document, and it "
    + "appears here at once.");
  const asking = form({
    fields: [{ ...PREFIX, value: prefix }], title: "Follow", style: "line",
    send: async (said) => go(toChanges(said.prefix.trim())),
  });
  fill(place, h("h1", {}, "Changes"), asking, h("p", {}, state), nothing);
  const heard = ({ event, data }) => {
    if (event !== "change") return;
    count += 1;
    nothing.replaceWith(wide(h("table", {}, head(), rows)));
    rows.prepend(line(data));
    if (rows.children.length > SHOWN_MAX) rows.lastChild.remove();
    fill(state, `connected, ${many(count, "change")}`);
  };
  const path = `/core/changes${prefix ? `?prefix=${encodeURIComponent(prefix)}` : ""}`;
  const told = (said) => fill(state, count ? `${said}, ${many(count, "change")}` : said);
  await follow(path, signal, heard, told).catch((error) => {
    if (!(error instanceof Refused)) throw error;
    nothing.remove();
    fill(state, "not connected");
    asking.refused(error);
  });
}

function head() {
  const titles = ["written", "document", "version", "by", "what it says"];
  const cell = (title) => h("th", { scope: "col", class: title === "version" && "number" }, title);
  return h("thead", {}, h("tr", {}, titles.map(cell)));
}

function line(text) {
  const said = objectOf(text);
  const link = JSON.parse(said.documentSelfLink);
  const told = said.deleted === "true" ? h("em", {}, "deleted") : inOneLine(said.body ?? "");
  return h("tr", {},
    h("td", {}, time(Number(said.documentUpdateTimeMicros))),
    h("td", { class: "code" }, h("a", { href: toDocument(link) }, link)),
    h("td", { class: "number" }, said.documentVersion),
    h("td", {}, JSON.parse(said.documentUpdateAction)),
    h("td", { class: "code excerpt" }, told));
}
