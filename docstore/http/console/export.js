// Files for the user: all documents of a list as NDJSON or CSV, page after page.

import { authors, membersOf, objectOf } from "/core/ui/json.js";
import { ask } from "/core/ui/node.js";

export const PAGE_SIZE = 1_000;
const KEPT_MS = 60_000;

// Have the browser keep a file. parts: its texts.
export function keep(name, parts, type = "application/json") {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT_MS);
}

// Read all pages from a path on, and keep the documents as a file. kind: "ndjson" or "csv".
// columns: members to keep, [] for all. told(count): called after each page.
export async function exportList(name, path, { kind, columns, told, signal }) {
  const rows = [];
  for (let next = path; next;) {
    const { text } = await ask("GET", next, { signal });
    const { documentLinks = "[]", documents = "{}", nextPageLink } = objectOf(text);
    const whole = objectOf(documents);
    for (const link of JSON.parse(documentLinks)) {
      if (whole[link]) rows.push(rowOf(link, whole[link], columns));
    }
    told(rows.length);
    next = nextPageLink && JSON.parse(nextPageLink);
  }
  if (kind === "csv") keep(`${name}.csv`, csv(rows), "text/csv");
  else keep(`${name}.ndjson`, ndjson(rows), "application/x-ndjson");
}

// A document as pairs of a name and a text of JSON.
function rowOf(link, text, columns) {
  const own = membersOf(columns.length > 0 ? text : authors(text))
    .map(([name, value]) => [JSON.parse(name), value]);
  const kept = columns.length > 0 ? own.filter(([name]) => columns.includes(name)) : own;
  return [["documentSelfLink", JSON.stringify(link)],
    ...kept.filter(([name]) => name !== "documentSelfLink")];
}

function ndjson(rows) {
  return rows.map((row) =>
    `{${row.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}\n`);
}

// RFC 4180. A text is itself; any other value is its JSON.
function csv(rows) {
  const names = [...new Set(rows.flatMap((row) => row.map(([name]) => name)))];
  const head = `${names.map(quoted).join(",")}\r\n`;
  return [head, ...rows.map((row) => {
    const found = Object.fromEntries(row);
    return `${names.map((name) => quoted(plain(found[name]))).join(",")}\r\n`;
  })];
}

function plain(value = "") {
  if (value === "null") return "";
  return value.startsWith("\"") ? JSON.parse(value) : value;
}

const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text);
