// The documents of a factory, in pages, or those that a condition finds.

import { fill, h, table } from "/core/ui/dom.js";
import { authors, excerpt, objectOf } from "/core/ui/json.js";
import { ask, encoded } from "/core/ui/node.js";
import { many, number, time } from "/core/ui/words.js";

const SIZE = 50;

// The place of a list is all in its hash, so that Back goes to the page before.
export async function list(place, route, signal) {
  const { link, query } = route;
  const { text } = await ask("GET", pathOf(link, query), { signal });
  const { documentLinks = "[]", documents = "{}", nextPageLink: next } = objectOf(text);
  const whole = objectOf(documents);
  const rows = JSON.parse(documentLinks).map((each) => rowOf(each, whole[each]));
  fill(place,
    h("p", { class: "trail" }, h("a", { href: "#/factories" }, "Documents")),
    h("h1", { class: "code" }, link),
    filter(link, query),
    table([
      ["document", (row) => h("a", { href: `#/document${encoded(row.link)}` }, row.id), "code name"],
      ["version", (row) => number(row.version), "number"],
      ["written", (row) => time(row.at)],
      ["what it says", (row) => row.excerpt, "code excerpt"],
    ], rows, query.get("filter") ? "Nothing fulfils the condition." : "There is no document here."),
    h("p", { class: "pages" },
      h("span", { class: "quiet" }, `${many(rows.length, "document")}${next ? ", more follow" : ""}`),
      query.has("next") && h("a", { href: `#/list${encoded(link)}?${shown(query)}` }, "First page"),
      next && h("a", { href: `#/list${encoded(link)}?${shown(query, JSON.parse(next))}` }, "Next page")));
}

// The hash of a page of the same list; next: the link under which the node has it.
function shown(query, next = "") {
  const asked = { filter: query.get("filter") ?? "", order: query.get("order") ?? "", next };
  return new URLSearchParams(Object.entries(asked).filter(([, value]) => value));
}

function pathOf(link, query) {
  const next = query.get("next") ?? "";
  if (next && decodeURIComponent(next.split("?")[0]) === link) return next;
  const asked = new URLSearchParams({ $limit: SIZE, $expand: "true" });
  if (query.get("filter")) asked.set("$filter", query.get("filter"));
  if (query.get("order")) asked.set("$orderby", query.get("order"));
  return `${encoded(link)}?${asked}`;
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

function filter(link, query) {
  const find = (event) => {
    event.preventDefault();
    const { filter: condition, order } = event.target.elements;
    const asked = new URLSearchParams({ filter: condition.value.trim(), order: order.value.trim() });
    location.hash = `#/list${encoded(link)}?${shown(asked)}`;
  };
  return h("form", { onSubmit: find, class: "line" },
    h("label", { for: "filter" }, "Condition"),
    h("input", { id: "filter", name: "filter", value: query.get("filter") ?? "", spellcheck: "false", class: "code long", placeholder: "rating gt 7 and genre eq 'Sci*'" }),
    h("label", { for: "order" }, "Order"),
    h("input", { id: "order", name: "order", value: query.get("order") ?? "", spellcheck: "false", class: "code", placeholder: "year desc" }),
    h("button", {}, "Find"),
    h("a", { href: `#/new${encoded(link)}`, class: "button" }, "New document"),
    h("a", { href: `#/changes?prefix=${encodeURIComponent(link)}`, class: "button" }, "Changes"));
}
