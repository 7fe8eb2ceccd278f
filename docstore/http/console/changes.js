// What changes, as it is decided, the newest first.

import { field, fill, h } from "/core/ui/dom.js";
import { follow } from "/core/ui/events.js";
import { excerpt, objectOf } from "/core/ui/json.js";
import { toChanges, toDocument } from "/core/ui/places.js";
import { many, time } from "/core/ui/words.js";

const SHOWN_MAX = 200;

export async function changes(place, route, signal) {
  const prefix = route.query.get("prefix") ?? "";
  const state = h("span", { class: "quiet", "aria-live": "polite" }, "connecting");
  const rows = h("tbody", {});
  let count = 0;
  fill(place, h("h1", {}, "Changes"), form(prefix), h("p", {}, state),
    h("div", { class: "wide" }, h("table", {}, head(), rows)));
  const heard = ({ event, data }) => {
    if (event !== "change") return;
    count += 1;
    rows.prepend(line(data));
    if (rows.children.length > SHOWN_MAX) rows.lastChild.remove();
    fill(state, `connected, ${many(count, "change")}`);
  };
  const path = `/core/changes${prefix ? `?prefix=${encodeURIComponent(prefix)}` : ""}`;
  await follow(path, signal, heard, (told) => {
    fill(state, count ? `${told}, ${many(count, "change")}` : told);
  });
}

function form(prefix) {
  const find = (event) => {
    event.preventDefault();
    location.hash = toChanges(event.target.elements.prefix.value.trim());
  };
  return h("form", { onSubmit: find, class: "line" },
    field("At and below", "prefix", { value: prefix, placeholder: "everything", class: "code" }),
    h("button", {}, "Follow"));
}

function head() {
  const titles = ["written", "document", "version", "by", "what it says"];
  const cell = (title) => h("th", { scope: "col", class: title === "version" && "number" }, title);
  return h("thead", {}, h("tr", {}, titles.map(cell)));
}

function line(text) {
  const said = objectOf(text);
  const link = JSON.parse(said.documentSelfLink);
  const told = said.deleted === "true" ? h("em", {}, "deleted") : excerpt(said.body ?? "");
  return h("tr", {},
    h("td", {}, time(Number(said.documentUpdateTimeMicros))),
    h("td", { class: "code name" }, h("a", { href: toDocument(link) }, link)),
    h("td", { class: "number" }, said.documentVersion),
    h("td", {}, JSON.parse(said.documentUpdateAction)),
    h("td", { class: "code excerpt" }, told));
}
