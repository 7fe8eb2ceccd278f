// A form whose input stays when a request is refused; the error is shown beside its field.

import { fill, h } from "/core/ui/dom.js";
import { guard } from "/core/ui/unsaved.js";

// A value that this console refuses before a node does.
export class Invalid extends Error {
  constructor(name, message) {
    super(message);
    this.name_ = name;
  }
}

// fields: {name, title, hint, kind: text, area, check or choice, choices, about, ...attributes of
// the input}. about: further words and codes by which an error of the node names the field.
// send(values, release): the request; values are texts, and booleans of checks. release() says that
// the input is saved. signal: the end of the page; without it, nothing asks before the input is
// lost. The form has a method refused(error), for what is refused later.
export function form({ fields, title, send, cancel, signal, style = "stack" }) {
  const shown = fields.map(row);
  const told = h("p", { role: "alert" });
  const button = h("button", { class: "main" }, title);
  const first = JSON.stringify(valuesOf(shown));
  const isDirty = () => JSON.stringify(valuesOf(shown)) !== first;
  const release = signal ? guard(isDirty, signal) : () => {};
  const refused = (error) => tell(error, shown, told);
  const onSubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    clear(shown, told);
    try {
      await send(valuesOf(shown), release);
    } catch (error) {
      refused(error);
    } finally {
      button.disabled = false;
    }
  };
  const place = h("form", { onSubmit, class: style }, shown.map((each) => each.place),
    h("p", { class: "buttons" }, button,
      cancel && h("button", { type: "button", onClick: cancel }, "Cancel")), told);
  return Object.assign(place, { refused });
}

// A field with its label, its hint and a place for its error.
function row({ name, title, hint, kind = "text", choices, about = [], ...attributes }) {
  const id = `field-${name}`;
  const told = { id, name, "aria-describedby": `${id}-told` };
  const input = inputOf(kind, choices, told, attributes);
  const error = h("p", { class: "error", role: "alert" });
  const notes = h("div", { id: `${id}-told`, class: "notes" }, hint && h("p", {}, hint), error);
  const label = h("label", { for: id }, title);
  const line = kind === "check" ? [input, label] : [label, input];
  return { name, input, error, about: [name, ...about], place: h("div", { class: `row ${kind}` },
    line, notes) };
}

// Show an error beside the field that it names, or the only one, and give that the focus; else in
// `told`.
function tell(error, rows, told) {
  const found = rows.length === 1 ? rows[0]
    : rows.find((each) => error.name_ === each.name)
      ?? named(`${error.problem?.errorCode} ${error.message}`, rows);
  if (!found) {
    told.className = "warning";
    fill(told, error.message);
    return;
  }
  fill(found.error, error.message);
  found.input.setAttribute("aria-invalid", "true");
  found.input.focus();
}

function clear(rows, told) {
  told.className = "";
  fill(told);
  for (const { error, input } of rows) {
    fill(error);
    input.removeAttribute("aria-invalid");
  }
}

// JSON that a node can read, as the text that it is; "" stays "".
export function jsonIn(name, text) {
  if (!text.trim()) return "";
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Invalid(name, `This is no JSON: ${error.message}`);
  }
  return text;
}

// A whole number, undefined for "".
export function wholeIn(name, text) {
  if (!text.trim()) return undefined;
  if (!/^\d{1,15}$/.test(text.trim())) throw new Invalid(name, "Give a whole number, such as 3.");
  return Number(text);
}

function inputOf(kind, choices = [], told, attributes) {
  const { value = "", ...others } = attributes;
  if (kind === "check") return h("input", { type: "checkbox", ...told, ...others });
  if (kind === "choice") {
    const options = choices.map(([each, title]) =>
      h("option", { value: each, selected: each === value }, title));
    return h("select", { ...told, ...others }, options);
  }
  if (kind === "area") {
    const area = h("textarea", { class: "code", spellcheck: "false", rows: 5, ...told, ...others });
    area.value = value;
    return area;
  }
  return h("input", { spellcheck: "false", autocomplete: "off", value, ...told, ...others });
}

function valuesOf(rows) {
  return Object.fromEntries(rows.map(({ name, input }) =>
    [name, input.type === "checkbox" ? input.checked : input.value]));
}

// The field whose name comes first in a message.
function named(message, rows) {
  const at = (words) => Math.min(...words.map((word) => {
    const found = message.search(new RegExp(`(?<![\\w$])${word.replace("$", "\\$")}(?!\\w)`));
    return found < 0 ? Infinity : found;
  }));
  const [first] = rows.map((each) => [at(each.about), each]).sort(([one], [two]) => one - two);
  return first && first[0] < Infinity ? first[1] : undefined;
}
