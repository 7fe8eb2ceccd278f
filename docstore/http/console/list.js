// The documents of a factory, in pages, or those that a condition finds.

import { button, field, fill, h, table } from "/core/ui/dom.js";
import { authors, excerpt, objectOf } from "/core/ui/json.js";
import { ask, encoded } from "/core/ui/node.js";
import { FACTORIES, toChanges, toDocument, toList, toNew } from "/core/ui/places.js";
import { many, number, time } from "/core/ui/words.js";

const SIZE = 50;

// The place of a list is all in its hash, so that Back goes to the page before.
export async function list(place, route, signal) {
  const { link, query } = route;
  const asked = { filter: query.get("filter") ?? "", order: query.get("order") ?? "" };
  const { text } = await ask("GET", pathOf(link, asked, query.get("next")), { signal });
  const { documentLinks = "[]", documents = "{}", nextPageLink: next } = objectOf(text);
  const whole = objectOf(documents);
  const rows = JSON.parse(documentLinks).map((each) => rowOf(each, whole[each]));
  fill(place,
    h("p", { class: "trail" }, h("a", { href: FACTORIES }, "Documents")),
    h("h1", { class: "code" }, link),
    form(link, asked),
    table([
      ["document", (row) => h("a", { href: toDocument(row.link) }, row.id), "code name"],
      ["version", (row) => number(row.version), "number"],
      ["written", (row) => time(row.at)],
      ["what it says", (row) => row.excerpt, "code excerpt"],
    ], rows, asked.filter ? "Nothing fulfils the condition." : "There is no document here."),
    h("p", { class: "pages" },
      h("span", { class: "quiet" }, many(rows.length, "document"), next && ", more follow"),
      query.has("next") && h("a", { href: toList(link, asked) }, "First page"),
      next && h("a", { href: toList(link, { ...asked, next: JSON.parse(next) }) }, "Next page")));
}

// The page that a link of the node names, or the first one.
function pathOf(link, asked, next) {
  if (next && decodeURIComponent(next.split("?")[0]) === link) return next;
  const wanted = new URLSearchParams({ $limit: SIZE, $expand: "true" });
  if (asked.filter) wanted.set("$filter", asked.filter);
  if (asked.order) wanted.set("$orderby", asked.order);
  return `${encoded(link)}?${wanted}`;
}

function rowOf(link, text) {
  const id = link.slice(link.lastIndexOf("/") + 1);
  if (!text) return { link, id, excerpt: "" };
  const said = objectOf(text);
  return {
    link, id,
    version: Number(said.documentVersion),
    at: Number(said.documentUpdateTimeMicros),
    excerpt: excerpt(authors(text)),
  };
}

function form(link, { filter, order }) {
  const find = (event) => {
    event.preventDefault();
    const said = (name) => event.target.elements[name].value.trim();
    location.hash = toList(link, { filter: said("filter"), order: said("order") });
  };
  const sample = "rating gt 7 and genre eq 'Sci*'";
  return h("form", { onSubmit: find, class: "line" },
    field("Condition", "filter", { value: filter, class: "code long", placeholder: sample }),
    field("Order", "order", { value: order, class: "code", placeholder: "year desc" }),
    h("button", {}, "Find"),
    button("New document", toNew(link)),
    button("Changes", toChanges(link)));
}
