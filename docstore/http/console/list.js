// The documents of a factory, in pages, or those that a condition finds.

import { chooser, columnsIn, MEMBERS_OF_STORE } from "/core/ui/columns.js";
import { button, empty, fill, h, table } from "/core/ui/dom.js";
import { exportList, PAGE_SIZE } from "/core/ui/export.js";
import { form } from "/core/ui/form.js";
import { excerpt, line, membersOf, objectOf } from "/core/ui/json.js";
import { ask, count, encoded, methodsOf, Refused } from "/core/ui/node.js";
import {
  FACTORIES, go, nameOf, NEW_FACTORY, toChanges, toDocument, toList, toNew,
} from "/core/ui/places.js";
import { many, number, time } from "/core/ui/words.js";

const SIZE = 50;
const DECLARATIONS = "/core/factories";

// The place of a list is all in its hash, so that Back goes to the page before.
export async function list(place, route, signal) {
  const { link, query } = route;
  const asked = {
    filter: query.get("filter") ?? "", order: query.get("order") ?? "",
    columns: query.get("columns") ?? "",
  };
  const asking = search(link, asked);
  const shown = h("div", {}, h("p", { class: "quiet" }, "Reading…"));
  fill(place, h("p", { class: "trail" }, h("a", { href: FACTORIES }, "Documents")),
    h("h1", { class: "code" }, link), asking, shown);
  try {
    const [{ text }, methods] = await Promise.all([
      ask("GET", pathOf(link, asked, query.get("next")), { signal }),
      methodsOf(encoded(link), signal),
    ]);
    if (!signal.aborted) fill(shown, found(link, asked, query, { text, methods, signal }));
  } catch (error) {
    fill(shown);
    if (!(error instanceof Refused)) throw error;
    if (error.status !== 404) return asking.refused(error);
    asking.remove();
    const methods = await methodsOf(DECLARATIONS, signal);
    const declare = methods.has("POST") && button("Declare a factory", NEW_FACTORY);
    fill(shown, empty(error.message, declare));
  }
}

function found(link, asked, query, { text, methods, signal }) {
  const { documentLinks, documents = "{}", nextPageLink: next } = objectOf(text);
  const whole = objectOf(documents);
  const rows = JSON.parse(documentLinks).map((each) => rowOf(each, whole[each]));
  const total = h("span", {});
  if (rows.length > 0 && (next || query.has("next"))) {
    count(link, asked.filter, signal)
      .then((all) => all !== null && fill(total, ` of ${number(all)}`));
  }
  return [
    h("div", { class: "line" },
      methods.has("POST") && button("New document", toNew(link)),
      button("Changes", toChanges(link)),
      rows.length > 0 && exports(link, asked, signal)),
    rows.length > 0 && chooser(link, asked, rows),
    table(columnsOf(asked), rows, nothing(link, asked, methods)),
    rows.length > 0 && h("p", { class: "pages" },
      h("span", { class: "quiet" }, many(rows.length, "document"), total,
        next && ", more follow"),
      query.has("next") && h("a", { href: toList(link, asked) }, "First page"),
      next && h("a", { href: toList(link, { ...asked, next: JSON.parse(next) }) }, "Next page")),
  ];
}

// The page that a link of the node names, or the first one.
function pathOf(link, asked, next) {
  if (next && decodeURIComponent(next.split("?")[0]) === link) return next;
  return `${encoded(link)}?${wanted(asked, { $limit: SIZE, $expand: "true" })}`;
}

function wanted(asked, others) {
  const found = new URLSearchParams(others);
  if (asked.filter) found.set("$filter", asked.filter);
  if (asked.order) found.set("$orderby", asked.order);
  return found;
}

function rowOf(link, text = "") {
  const pairs = membersOf(text);
  const members = Object.fromEntries(pairs.map(([name, value]) => [JSON.parse(name), value]));
  return { link, id: nameOf(link), members, excerpt: text && excerpt(pairs) };
}

function columnsOf({ columns }) {
  const chosen = columnsIn(columns);
  const title = (each) => h("a", { href: toDocument(each.link) }, each.id);
  const name = ["document", title, "code"];
  if (chosen.length > 0) return [name, ...chosen.map(column)];
  return [name,
    ["version", (each) => number(Number(each.members.documentVersion)), "number"],
    ["written", (each) => time(Number(each.members.documentUpdateTimeMicros))],
    ["what it says", (each) => each.excerpt, "code excerpt"]];
}

function column(name) {
  const title = MEMBERS_OF_STORE[name] ?? name;
  if (name.endsWith("TimeMicros")) return [title, (each) => time(Number(each.members[name]))];
  return [title, ({ members }) => valueOf(members[name]), "cell"];
}

function valueOf(text) {
  if (text === undefined) return "–";
  return text.startsWith("\"") ? JSON.parse(text) : line(text);
}

function nothing(link, { filter }, methods) {
  if (filter) return empty("No document fulfils the condition.", button("Show all", toList(link)));
  const make = methods.has("POST") && button("New document", toNew(link));
  return empty("There is no document here yet.", make);
}

const FIELDS = [
  {
    name: "filter", title: "Condition", about: ["$filter"], class: "code",
    placeholder: "rating gt 7 and genre eq 'Sci*'",
  },
  {
    name: "order", title: "Order", about: ["$orderby", "orderby"], class: "code",
    placeholder: "year desc",
  },
];

function search(link, asked) {
  return form({
    fields: FIELDS.map((each) => ({ ...each, value: asked[each.name] })), title: "Find",
    style: "search",
    send: async ({ filter, order }) =>
      go(toList(link, { ...asked, filter: filter.trim(), order: order.trim() })),
  });
}

function exports(link, asked, signal) {
  const state = h("span", { class: "quiet", "aria-live": "polite" });
  const name = link.slice(1).replaceAll("/", "-").replaceAll(":", "");
  const path = `${encoded(link)}?${wanted(asked, { $limit: PAGE_SIZE, $expand: "true" })}`;
  const told = (count) => fill(state, `${number(count)} read`);
  const onClick = (kind) => async () => {
    try {
      await exportList(name, path, { kind, columns: columnsIn(asked.columns), told, signal });
    } catch (error) {
      if (!signal.aborted) fill(state, error.message);
    }
  };
  const title = { ndjson: "Export NDJSON", csv: "Export CSV" };
  return [...Object.keys(title).map((kind) =>
    h("button", { type: "button", onClick: onClick(kind) }, title[kind])), state];
}
