// Making elements. Whatever is shown goes in as text: there is no other way in this console for
// what a document says to get into a page (docs/decisions/0065-console-is-plain-files.md).

// Attributes that a view may set; anything else is a mistake, and is said to be one.
const ATTRIBUTES = new Set([
  "autocomplete", "checked", "class", "colspan", "disabled", "for", "href", "id", "max", "min",
  "name", "open", "placeholder", "readonly", "required", "rows", "scope", "selected", "spellcheck",
  "tabindex", "title", "type", "value", "aria-current", "aria-describedby", "aria-invalid",
  "aria-label", "aria-live", "role",
]);

const ROWS_MAX = 500;

// h("a", {href: "#/group"}, "Group"): an element with attributes, listeners (onClick) and children.
// A child is text, a number, an element, a list of those, or nothing (null, undefined, false).
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) {
      element.addEventListener(key.slice(2).toLowerCase(), value);
    } else if (key === "href") {
      element.setAttribute("href", ownPlace(value));
    } else if (ATTRIBUTES.has(key)) {
      element.setAttribute(key, value === true ? "" : String(value));
    } else {
      throw new Error(`no attribute ${key} here`);
    }
  }
  element.append(...texts(children));
  return element;
}

// Put these children in the place of those that are there.
export function fill(element, ...children) {
  element.replaceChildren(...texts(children));
}

// A table. columns: [heading, cell of a row, class]. nothing: shown in place of an empty table.
// limit: of rows that are shown; a line says how many more there are.
export function table(columns, rows, nothing = "None.", limit = ROWS_MAX) {
  if (rows.length === 0) return h("p", { class: "quiet" }, nothing);
  const head = columns.map(([title, , style]) => h("th", { scope: "col", class: style }, title));
  const line = (row) => columns.map(([, cell, style]) => h("td", { class: style }, cell(row)));
  const hidden = rows.length - limit;
  return [
    wide(h("table", {},
      h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, rows.slice(0, limit).map((row) => h("tr", {}, line(row)))))),
    hidden > 0 && h("p", { class: "quiet" }, `${hidden.toLocaleString("en")} more are not shown.`),
  ];
}

// A frame for a table that may be wider than the screen; keys scroll it once it has the focus.
export function wide(content) {
  return h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "table" }, content);
}

// Pairs of a name and what it is; a name without a value is left out.
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value || value === 0);
  const pair = ([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("dl", {}, shown.map(pair));
}

// A field to type in, after its label. id: also its name in a form.
export function field(title, id, attributes = {}) {
  const input = h("input", { id, name: id, spellcheck: "false", ...attributes });
  return [h("label", { for: id }, title), input];
}

// Shown where a list is empty: what is missing, and what to do next.
export function empty(what, ...next) {
  return h("div", { class: "empty" }, h("p", {}, what), next);
}

// A link that looks like a button.
export const button = (title, href) => h("a", { href, class: "button" }, title);

// A link to the console of another member, in a tab of its own. url: the address of a node.
export function memberLink(id, url, place) {
  const { origin, protocol } = new URL(url);
  if (!/^https?:$/.test(protocol)) throw new Error("a member has no such address");
  const link = h("a", { class: "button" }, id);
  link.href = `${origin}/core/ui${place}`;
  link.target = "_blank";
  return link;
}

function texts(children) {
  const shown = children.flat(Infinity).filter((each) =>
    each !== null && each !== undefined && each !== false);
  return shown.map((each) => (each instanceof Node ? each : String(each)));
}

// Links lead to places of this node, except memberLink: never to what a document names, and never
// to a script.
function ownPlace(href) {
  if (/^(?:#|\/(?![/\\]))/.test(href)) return href;
  throw new Error("a link of the console leads elsewhere");
}
