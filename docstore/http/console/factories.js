// Which documents there are: the factories that are declared, and those of the store itself.

import { field, fill, h, table } from "/core/ui/dom.js";
import { page } from "/core/ui/node.js";
import { toDocument, toList } from "/core/ui/places.js";
import { number } from "/core/ui/words.js";

const OF_THE_STORE = [
  ["/core/examples", "the sample"],
  ["/core/factories", "declarations of factories"],
  ["/core/snapshots", "cuts with a name"],
  ["/core/subscriptions", "receivers that are told of changes"],
  ["/core/leases", "leases that live"],
  ["/core/locks", "locks"],
  ["/core/elections", "elections"],
  ["/core/groups", "groups that share topics"],
  ["/core/roles", "roles that somebody leads"],
  ["/core/spark/jobs", "jobs on Spark"],
  ["/core/spark/dead", "rows that jobs could not write"],
  ["/core/spark/quotas", "what jobs may take"],
];
// Options that change what a request meets, in a few words.
const OPTIONS = {
  STRICT_UPDATE_CHECKING: "strict updates",
  IDEMPOTENT_POST: "POST replaces",
  IMMUTABLE: "immutable",
};

export async function factories(place, route, signal) {
  const { documents = {} } = await page("/core/factories?expand", signal);
  const declared = Object.values(documents).sort((one, other) => (one.path < other.path ? -1 : 1));
  fill(place,
    h("h1", {}, "Documents"),
    h("form", { onSubmit: open, class: "line" },
      field("Open a document", "link", { placeholder: "/notes/a", required: true }),
      h("button", {}, "Open")),
    table([
      ["factory", (each) => h("a", { href: toList(each.path) }, each.path), "code"],
      ["level", (each) => level(each.options), "number"],
      ["versions kept", (each) => number(each.retention?.versions), "number"],
      ["schema", (each) => (each.schema ? "yes" : "–")],
      ["options", (each) => others(each)],
      ["declaration", declaration],
    ], declared, "No factory is declared."),
    h("h2", {}, "Of the store itself"),
    table([
      ["factory", ([path]) => h("a", { href: toList(path) }, path), "code"],
      ["what", ([, what]) => what],
    ], OF_THE_STORE));
}

function open(event) {
  event.preventDefault();
  const link = event.target.elements.link.value.trim();
  location.hash = toDocument(link.startsWith("/") ? link : `/${link}`);
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
