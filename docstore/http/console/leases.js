// A lease: its holder, the time that is left, the documents that live with it, and its end.

import { facts, h, table } from "/core/ui/dom.js";
import { ask, encoded } from "/core/ui/node.js";
import { toDocument } from "/core/ui/places.js";
import { action } from "/core/ui/questions.js";
import { duration, span } from "/core/ui/words.js";

export async function leaseContent(link, found, may) {
  const { attached = [], state, why } = found;
  return [
    facts([
      ["state", why ? `${state}: ${why}` : state],
      ["holder", found.holder],
      ["left", state !== "ended" && left(found)],
      ["time to live", span(found.ttlMs)],
      ["documents at its end", found.behavior === "release" ? "kept" : "deleted"],
    ]),
    h("p", { class: "buttons" }, await ending("Revoke", "this lease", [], { link, state, may })),
    h("h2", {}, "Attached documents"),
    table([["document", (each) => h("a", { href: toDocument(each) }, each), "code"]],
      attached, "No document lives with this lease."),
  ];
}

export const left = ({ remainingMs }) =>
  (typeof remainingMs === "number" ? duration(remainingMs / 1_000) : null);

// A button that ends a lease, and so the turns of its holder; nothing if the user may not, or if
// the lease has ended. about: further paragraphs of the question.
export async function ending(title, of, about, { link, state, may }) {
  const choices = [];
  if (state === "alive" && await may("PATCH", link)) {
    choices.push(["Let it expire", () => expire(link), "main"]);
    about.push("Let it expire: the lease is renewed no longer. Its holder stops by its own clock, "
      + "and the lease ends when its time is over.");
  }
  if (state !== "ended" && await may("DELETE", link)) {
    choices.push(["End it now", () => ask("DELETE", encoded(link))]);
    about.push("End it now: only if the holder has certainly stopped. Else two may act at once.");
  }
  return choices.length > 0 && action(title, of, about, ...choices);
}

// Have a lease renewed no longer; return the lease.
export async function expire(link) {
  const body = JSON.stringify({ kind: "ExpireRequest" });
  return JSON.parse((await ask("PATCH", encoded(link), { body })).text);
}
