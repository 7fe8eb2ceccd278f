// The factories: those that are declared, of them the services, and those of the store itself.

import { button, empty, fill, h, table } from "/core/ui/dom.js";
import { form } from "/core/ui/form.js";
import { ask, count, encoded, methodsOf, page, Refused } from "/core/ui/node.js";
import { go, NEW_FACTORY, toDocument, toList } from "/core/ui/places.js";
import { number } from "/core/ui/words.js";

const PATH = "/core/factories";
const OF_THE_STORE = [
  ["/core/examples", "the sample"],
  ["/core/factories", "declarations of factories"],
  ["/core/snapshots", "cuts with a name"],
  ["/core/subscriptions", "receivers of changes"],
  ["/core/leases", "leases that live"],
  ["/core/locks", "locks"],
  ["/core/elections", "elections"],
  ["/core/groups", "groups that share topics"],
  ["/core/roles", "roles and their leaders"],
  ["/core/spark/jobs", "jobs on Spark"],
  ["/core/spark/dead", "rows that jobs could not write"],
  ["/core/spark/quotas", "quotas of jobs"],
];
// Options that change the result of a request, in a few words.
const OPTIONS = {
  STRICT_UPDATE_CHECKING: "strict updates",
  IDEMPOTENT_POST: "POST replaces",
  IMMUTABLE: "immutable",
};

export async function factories(place, route, signal) {
  const [{ documents = {}, nextPageLink }, methods] = await Promise.all([
    page(`${PATH}?expand`, signal), methodsOf(PATH, signal),
  ]);
  if (signal.aborted) return;
  const declared = Object.values(documents).sort((one, other) => (one.path < other.path ? -1 : 1));
  const declare = () => methods.has("POST") && button("Declare a factory", NEW_FACTORY);
  const counts = Object.fromEntries(declared.map(({ path }) => [path, h("span", {}, "…")]));
  fill(place,
    h("h1", {}, "Documents"),
    form({
      fields: [{ name: "link", title: "Path", class: "code", placeholder: "/notes/a" }],
      title: "Open a document", send: open, style: "line",
    }),
    h("p", { class: "line" }, declared.length > 0 && declare()),
    table([
      ["factory", ({ path }) => h("a", { href: toList(path) }, path), "code"],
      ["kind", kind],
      ["documents", ({ path }) => counts[path], "number"],
      ["level", ({ options }) => level(options), "number"],
      ["indexes", ({ indexes = [] }) => indexes.join("; ") || "–", "code cell"],
      ["versions kept", ({ retention }) => number(retention?.versions), "number"],
      ["rules", rules, "cell"],
      ["declaration", declaration],
    ], declared, empty("No factory is declared yet. A factory is a path, such as /notes, below "
      + "which documents are stored.", declare())),
    nextPageLink && h("p", {}, "More follow in ", h("a", { href: toList(PATH) }, "the list"), "."),
    h("h2", {}, "Of the store itself"),
    table([
      ["factory", ([path]) => h("a", { href: toList(path) }, path), "code"],
      ["what", ([, what]) => what],
    ], OF_THE_STORE));
  for (const [path, shown] of Object.entries(counts)) {
    if (signal.aborted) return;
    fill(shown, number(await count(path, "", signal)));
  }
}

// The kind of the documents, and the class of a service with the methods that it has.
function kind({ path, kind: named, service }) {
  const shown = named ?? path.slice(1).replace(/:$/, "").replaceAll("/", ":");
  return service ? [shown, h("span", { class: "quiet" }, `, service ${service.class}`)] : shown;
}

async function open({ link }, release) {
  const path = `/${link.trim().replace(/^\/+/, "")}`;
  await ask("GET", encoded(path)).catch((error) => {
    // A deleted document has a page, with its versions.
    if (!(error instanceof Refused && error.headers.has("Docstore-Version"))) throw error;
  });
  release();
  go(toDocument(path));
}

function level(options) {
  if (!options || options.includes("ENFORCE_QUORUM")) return 3;
  return options.includes("OWNER_SELECTION") ? 2 : 1;
}

function declaration({ documentSelfLink, documentVersion }) {
  return h("a", { href: toDocument(documentSelfLink) }, `version ${documentVersion}`);
}

function rules(declared) {
  const found = (declared.options ?? []).map((each) => OPTIONS[each]).filter(Boolean);
  if (declared.schema) found.push("schema");
  if (declared.service) found.push(declared.service.methods.join(" "));
  if (declared.requiresFence) found.push("needs a fence");
  if (declared.requiresPrecondition) found.push("needs a precondition");
  return found.join(", ") || "–";
}
