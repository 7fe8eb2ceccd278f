// The description of the HTTP interface, as this node gives it to whoever looks: /core/openapi.json.

import { fill, h, table } from "/core/ui/dom.js";
import { page } from "/core/ui/node.js";
import { many } from "/core/ui/words.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const DEEP = 4;

export async function interface_(place, route, signal) {
  const described = await page("/core/openapi.json", signal);
  const operations = operationsOf(described);
  const shown = h("div", {});
  const count = h("span", { class: "quiet", "aria-live": "polite" });
  const find = (words) => {
    const found = operations.filter((each) => words.every((word) => each.searched.includes(word)));
    fill(count, many(found.length, "operation"));
    fill(shown, described.tags.map((tag) => section(described, tag, found.filter((each) => each.tag === tag.name))));
  };
  const typed = (event) => find(event.target.value.toLowerCase().split(/\s+/));
  fill(place,
    h("h1", {}, "Interface"),
    described.info.description.split("\n\n").map((each) => h("p", { class: "prose" }, prose(each))),
    h("p", { class: "line" }, h("label", { for: "words" }, "Find"),
      h("input", { id: "words", type: "search", onInput: typed, placeholder: "path, method or word" }), count,
      h("a", { href: "/core/openapi.json", class: "button" }, "openapi.json")),
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
      ["parameter", (each) => each.name, "code name"],
      ["in", (each) => each.in],
      ["type", (each) => typed(described, each.schema, DEEP), "code"],
      ["what", (each) => prose(each.description)],
    ], parameters),
    op.requestBody && Object.entries(op.requestBody.content).map(([media, { schema }]) =>
      body("Body", media, described, schema)),
    Object.entries(op.responses).map(([status, answer]) => answered(described, status, resolved(described, answer))),
    h("pre", { class: "code" }, example(method, path, op)),
  ];
}

function body(title, media, described, schema) {
  return [
    h("h3", {}, title, " ", h("span", { class: "quiet" }, media)),
    schema && Object.keys(schema).length > 0 && h("pre", { class: "code" }, typed(described, schema, 0)),
  ];
}

function answered(described, status, answer) {
  const title = `${status === "default" ? "Else" : status}: ${answer.description}`;
  const found = Object.entries(answer.content ?? {});
  if (found.length === 0 || status === "default") {
    return h("h3", {}, prose(title), status === "default" && h("span", { class: "quiet" }, " application/problem+json"));
  }
  return found.map(([media, { schema }]) => body(prose(title), media, described, schema));
}

// A command that asks for it.
function example(method, path, op) {
  const url = `${location.origin}${path}`;
  const media = Object.keys(op.requestBody?.content ?? {})[0];
  const verb = method === "get" ? "" : `-X ${method.toUpperCase()} `;
  const sent = media ? `-H 'Content-Type: ${media}' -d '…' ` : "";
  return `curl ${verb}${sent}'${url}'`;
}

// What stands between backquotes is code; all else is text.
function prose(text) {
  return [text].flat().map((each) => (typeof each === "string"
    ? each.split("`").map((part, number) => (number % 2 ? h("code", {}, part) : part))
    : each));
}

function resolved(described, value) {
  if (!value?.$ref?.startsWith("#/")) return value;
  const names = value.$ref.slice(2).split("/");
  return names.reduce((found, name) => found?.[name.replace(/~1/g, "/").replace(/~0/g, "~")], described) ?? {};
}

// A schema in a few words, as one writes types: {name: text, size?: integer}.
function typed(described, schema, depth) {
  if (schema === true || schema === undefined || Object.keys(schema).length === 0) return "anything";
  if (schema === false) return "nothing";
  if (schema.$ref) {
    return depth >= DEEP ? schema.$ref.split("/").at(-1) : typed(described, resolved(described, schema), depth);
  }
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  for (const key of ["oneOf", "anyOf"]) {
    if (schema[key]) return schema[key].map((each) => typed(described, each, depth + 1)).join("\n| ");
  }
  if (schema.allOf) return schema.allOf.map((each) => typed(described, each, depth + 1)).join("\n& ");
  if (schema.type === "array") return `[${typed(described, schema.items, depth + 1)}]`;
  if (schema.properties && depth < DEEP) return members(described, schema, depth);
  return [schema.type ?? "object"].flat().join(" | ") + bounds(schema);
}

function members(described, schema, depth) {
  const needed = new Set(schema.required ?? []);
  const lines = Object.entries(schema.properties).map(([name, each]) => {
    const value = typed(described, each, depth + 1).replaceAll("\n", "\n  ");
    return `${name}${needed.has(name) ? "" : "?"}: ${value}`;
  });
  const short = `{${lines.join(", ")}}`;
  return short.length < 72 && !short.includes("\n") ? short : `{\n${lines.map((each) => `  ${each},\n`).join("")}}`;
}

function bounds({ minimum, maximum }) {
  if (maximum !== undefined) return ` ${minimum ?? ""}–${maximum}`;
  return minimum === undefined ? "" : ` ≥ ${minimum}`;
}
