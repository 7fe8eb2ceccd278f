// JSON as a tree that folds. Parts are made when they are opened, so that a document of any size
// is shown at once. Values stay the texts that they are: see json.js.

import { fill, h } from "/core/ui/dom.js";
import { spans, spelled } from "/core/ui/json.js";

const LINES_OPEN = 80;
const CHILDREN_AT_ONCE = 100;
const CHARACTERS_SHOWN = 500;

// text: JSON. Everything is open if it has few lines, else its outermost levels.
export function tree(text) {
  const found = spans(text);
  const budget = { left: LINES_OPEN };
  const root = part(found, 0, "", "", budget, true);
  return h("div", { class: "json code", tabindex: "0", role: "group", "aria-label": "JSON" }, root);
}

// The value that begins at a token, after its name, before its comma.
function part(found, at, name, comma, budget, isOpen = false) {
  const token = found.tokens[at];
  budget.left -= 1;
  if (token !== "{" && token !== "[") {
    return h("div", { class: "leaf" }, name, scalar(token), comma);
  }
  const children = found.children(at);
  const close = token === "{" ? "}" : "]";
  if (children.length === 0) return h("div", { class: "leaf" }, `${name}${token}${close}${comma}`);
  return container(found, { name, open: token, close: close + comma, children }, budget, isOpen);
}

function container(found, { name, open, close, children }, budget, isOpen) {
  const inside = h("div", { class: "inside" });
  const word = open === "{" ? "member" : "element";
  const count = `${children.length.toLocaleString("en")} ${word}${children.length > 1 ? "s" : ""}`;
  const shown = h("details", {},
    h("summary", {}, name, open, h("span", { class: "folded" }, ` ${count} `, close)),
    inside, h("div", { class: "end" }, close));
  const make = (spare) => {
    if (inside.childNodes.length === 0) more(found, inside, children, 0, spare);
  };
  if (isOpen || children.length <= budget.left) {
    make(budget);
    shown.open = true;
  }
  shown.addEventListener("toggle", () => { if (shown.open) make({ left: CHILDREN_AT_ONCE }); });
  return shown;
}

// Show the children from a number on, and a button for those after them.
function more(found, place, children, from, budget) {
  const until = Math.min(from + CHILDREN_AT_ONCE, children.length);
  const made = children.slice(from, until).map(({ name, at }, number) => {
    const isLast = from + number === children.length - 1;
    return part(found, at, name && `${spelled(name)}: `, isLast ? "" : ",", budget);
  });
  place.append(...made);
  if (until === children.length) return;
  const left = children.length - until;
  const title = `${Math.min(left, CHILDREN_AT_ONCE)} more of ${left.toLocaleString("en")}`;
  const onClick = () => {
    button.remove();
    more(found, place, children, until, { left: CHILDREN_AT_ONCE });
  };
  const button = h("button", { type: "button", class: "more", onClick }, title);
  place.append(button);
}

function scalar(said) {
  const token = spelled(said);
  const style = token.startsWith("\"") ? "text" : "value";
  if (token.length <= 2 * CHARACTERS_SHOWN) return h("span", { class: style }, token);
  const place = h("span", { class: style }, token.slice(0, CHARACTERS_SHOWN));
  const left = (token.length - CHARACTERS_SHOWN).toLocaleString("en");
  const onClick = () => fill(place, token);
  place.append(h("button", { type: "button", class: "more", onClick }, `${left} more characters`));
  return place;
}
