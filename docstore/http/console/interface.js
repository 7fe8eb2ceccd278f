// The HTTP interface, as this node describes it in /core/openapi.json.

import { button, field, fill, h, table } from "/core/ui/dom.js";
import { page } from "/core/ui/node.js";
import { resolved, typed } from "/core/ui/types.js";
import { many } from "/core/ui/words.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const PROBLEM = "application/problem+json";

export async function interface_(place, route, signal) {
  const described = await page("/core/openapi.json", signal);
  const operations = operationsOf(described);
  const shown = h("div", {});
  const count = h("span", { class: "quiet", "aria-live": "polite" });
  const find = (words) => {
    const found = operations.filter((each) => words.every((word) => each.searched.includes(word)));
    fill(count, many(found.length, "operation"));
    const of = (tag) => found.filter((each) => each.tag === tag.name);
    fill(shown, described.tags.map((tag) => section(described, tag, of(tag))));
  };
  const onInput = (event) => find(event.target.value.toLowerCase().split(/\s+/));
  fill(place,
    h("h1", {}, "Interface"),
    described.info.description.split("\n\n").map((each) => h("p", { class: "prose" }, prose(each))),
    h("p", { class: "line" },
      field("Find", "words", { type: "search", onInput, placeholder: "path, method or word" }),
      count, button("openapi.json", "/core/openapi.json")),
    shown);
  find([]);
}

function operationsOf(described) {
  return Object.entries(described.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => {
      const told = item[method];
      const searched = `${method} ${path} ${told.summary} ${told.tags}`.toLowerCase();
      return { method, path, told, tag: told.tags[0], searched, inPath: item.parameters ?? [] };
    }));
}

function section(described, tag, operations) {
  return operations.length > 0 && h("section", {},
    h("h2", {}, tag.name), h("p", { class: "quiet" }, tag.description),
    operations.map((each) => operation(described, each)));
}

// Closed at first; what is inside is made when it is opened.
function operation(described, each) {
  const inside = h("div", { class: "inside" });
  const shown = h("details", { class: "operation" },
    h("summary", {}, h("span", { class: `method ${each.method}` }, each.method.toUpperCase()),
      h("span", { class: "code" }, each.path), h("span", { class: "quiet" }, each.told.summary)),
    inside);
  shown.addEventListener("toggle", () => fill(inside, ...told(described, each)), { once: true });
  return shown;
}

function told(described, { method, path, told: op, inPath }) {
  const parameters = [...inPath, ...(op.parameters ?? [])].map((each) => resolved(described, each));
  return [
    h("p", { class: "prose" }, prose(op.description)),
    parameters.length > 0 && table([
      ["parameter", (each) => each.name, "code"],
      ["in", (each) => each.in],
      ["type", (each) => typed(described, each.schema), "code"],
      ["what", (each) => prose(each.description)],
    ], parameters),
    op.requestBody && Object.entries(op.requestBody.content).map(([media, form]) =>
      body("Body", media, described, form)),
    Object.entries(op.responses).map(([status, each]) =>
      answered(described, status, resolved(described, each))),
    h("pre", { class: "code" }, example(described, method, path, op)),
  ];
}

// form: a schema; or with x-itemSchema that of each line, event or object.
function body(title, media, described, form) {
  const item = form["x-itemSchema"];
  return [
    h("h3", {}, title, " ", h("span", { class: "quiet" }, media, item ? ", each of:" : "")),
    h("pre", { class: "code" }, typed(described, item ?? form.schema)),
  ];
}

function answered(described, status, answer) {
  if (status === "default") {
    return body(`Else: ${answer.description}`, PROBLEM, described, answer.content[PROBLEM]);
  }
  const title = prose(`${status}: ${answer.description}`);
  const found = Object.entries(answer.content ?? {});
  if (found.length === 0) return h("h3", {}, title);
  return found.map(([media, form]) => body(title, media, described, form));
}

// A command that asks for it.
function example(described, method, path, op) {
  const url = `${location.origin}${path}`;
  const [media, form] = Object.entries(op.requestBody?.content ?? {})[0] ?? [];
  const verb = method === "get" ? "" : `-X ${method.toUpperCase()} `;
  const sent = media ? `-H 'Content-Type: ${media}' --data-binary ${sample(described, form)} ` : "";
  return `curl ${verb}${sent}'${url}'`;
}

// The first example of a body, quoted for a shell.
function sample(described, form) {
  const value = resolved(described, Object.values(form.examples)[0]).value;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return `'${text.replaceAll("'", "'\\''")}'`;
}

// Text between backquotes is code.
function prose(text) {
  return text.split("`").map((part, number) => (number % 2 ? h("code", {}, part) : part));
}
