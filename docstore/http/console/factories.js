// Which documents there are: the factories that are declared, and those of the store itself.

import { button, empty, fill, h, table } from "/core/ui/dom.js";
import { form } from "/core/ui/form.js";
import { ask, encoded, methodsOf, page, Refused } from "/core/ui/node.js";
import { NEW_FACTORY, toDocument, toList } from "/core/ui/places.js";
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
  const [{ documents = {} }, methods] = await Promise.all([
    page(`${PATH}?expand`, signal), methodsOf(PATH, signal),
  ]);
  if (signal.aborted) return;
  const declared = Object.values(documents).sort((one, other) => (one.path < other.path ? -1 : 1));
  const declare = () => methods.has("POST") && button("Declare a factory", NEW_FACTORY);
  fill(place,
    h("h1", {}, "Documents"),
    form({
      fields: [{ name: "link", title: "Path", class: "code", placeholder: "/notes/a" }],
      title: "Open a document", send: open, style: "line",
    }),
    h("p", { class: "line" }, declared.length > 0 && declare()),
    table([
      ["factory", (each) => h("a", { href: toList(each.path) }, each.path), "code"],
      ["level", (each) => level(each.options), "number"],
      ["versions kept", (each) => number(each.retention?.versions), "number"],
      ["schema", (each) => (each.schema ? "yes" : "–")],
      ["options", (each) => others(each)],
      ["declaration", declaration],
    ], declared, empty("No factory is declared yet. A factory is a path, such as /notes, below "
      + "which documents are stored.", declare())),
    h("h2", {}, "Of the store itself"),
    table([
      ["factory", ([path]) => h("a", { href: toList(path) }, path), "code"],
      ["what", ([, what]) => what],
    ], OF_THE_STORE));
}

async function open({ link }, release) {
  const path = `/${link.trim().replace(/^\/+/, "")}`;
  await ask("GET", encoded(path)).catch((error) => {
    // A deleted document has a page, with its versions.
    if (!(error instanceof Refused && error.headers.has("Docstore-Version"))) throw error;
  });
  release();
  location.hash = toDocument(path);
}

function level(options) {
  if (!options || options.includes("ENFORCE_QUORUM")) return 3;
  return options.includes("OWNER_SELECTION") ? 2 : 1;
}

function declaration({ documentSelfLink, documentVersion }) {
  return h("a", { href: toDocument(documentSelfLink) }, `version ${documentVersion}`);
}

function others(declared) {
  const found = (declared.options ?? []).map((each) => OPTIONS[each]).filter(Boolean);
  if (declared.requiresFence) found.push("needs a fence");
  if (declared.requiresPrecondition) found.push("needs a precondition");
  return found.join(", ") || "–";
}
