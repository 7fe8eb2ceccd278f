// A schema in a few words, as one writes types: {name: string, size?: integer}.

const DEEP = 4;
const SHORT = 72;

// described: the whole description, in which references lead somewhere.
export function typed(described, schema, depth = 0) {
  if (schema === true || schema === undefined) return "anything";
  if (schema === false) return "nothing";
  if (schema.$ref) return referred(described, schema, depth);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  const among = (some, sign) =>
    some.map((each) => typed(described, each, depth + 1)).join(`\n${sign} `);
  if (schema.oneOf ?? schema.anyOf) return among(schema.oneOf ?? schema.anyOf, "|");
  if (schema.allOf) return among(schema.allOf, "&");
  if (schema.type === "array") return `[${typed(described, schema.items, depth + 1)}]`;
  if (schema.properties && depth < DEEP) return members(described, schema, depth);
  if (schema.type === undefined) return "anything";
  return [schema.type].flat().join(" | ") + bounds(schema);
}

// The target of a reference within the description; another value unchanged.
export function resolved(described, value) {
  if (!value?.$ref?.startsWith("#/")) return value;
  const plain = (name) => name.replace(/~1/g, "/").replace(/~0/g, "~");
  const names = value.$ref.slice(2).split("/").map(plain);
  return names.reduce((found, name) => found?.[name], described) ?? {};
}

// Schemas may lead back to themselves: below some depth their names are enough.
function referred(described, schema, depth) {
  if (depth >= DEEP) return schema.$ref.split("/").at(-1);
  return typed(described, resolved(described, schema), depth + 1);
}

function members(described, schema, depth) {
  const needed = new Set(schema.required ?? []);
  const lines = Object.entries(schema.properties).map(([name, each]) => {
    const value = typed(described, each, depth + 1).replaceAll("\n", "\n  ");
    return `${name}${needed.has(name) ? "" : "?"}: ${value}`;
  });
  const short = `{${lines.join(", ")}}`;
  if (short.length < SHORT && !short.includes("\n")) return short;
  return `{\n${lines.map((each) => `  ${each},\n`).join("")}}`;
}

function bounds({ minimum, maximum }) {
  if (maximum !== undefined) return ` ${minimum ?? ""}–${maximum}`;
  return minimum === undefined ? "" : ` ≥ ${minimum}`;
}
