// Subscriptions: the receivers to which nodes deliver changes.

import { empty, fill, h } from "/core/ui/dom.js";
import { ask, encoded } from "/core/ui/node.js";
import { nameOf, toDocument } from "/core/ui/places.js";
import { action } from "/core/ui/questions.js";
import { refreshList } from "/core/ui/refresh.js";
import { number } from "/core/ui/words.js";

const COMMAND = "docstore subscription create /films https://hooks.example.com/films";
const PAUSE = ["Pause", "PauseRequest", "Changes are kept until you resume it."];
const RESUME = ["Resume", "ResumeRequest", "All changes since the pause are delivered."];
const STYLES = { active: "well", paused: "doubtful" };

// The node lists to a user only those that this user may change.
export async function subscriptions(place, route, signal) {
  const shown = h("div", {});
  fill(place, h("h1", {}, "Subscriptions"), shown);
  await refreshList(shown, signal, {
    path: "/core/subscriptions", word: "subscription", columns: COLUMNS,
    nothing: empty("No receiver gets changes yet. The operator must allow its host first. "
      + "Then:", h("p", {}, h("code", {}, COMMAND))),
  });
}

const COLUMNS = [
  ["path", ({ path }) => path, "code"],
  ["state", ({ state }) => h("span", { class: `state ${STYLES[state] ?? "ill"}` }, state)],
  ["receiver", ({ callback }) => callback, "code cell"],
  ["delivered", ({ delivered }) => number(delivered), "number"],
  ["condition", ({ where }) => where || "–", "code cell"],
  ["reason", ({ why }) => why || "–", "cell"],
  ["document", ({ link }) => h("a", { href: toDocument(link) }, nameOf(link)), "code"],
  ["actions", acts],
];

function acts({ link, path, state, callback }) {
  const of = `the subscription to ${path}`;
  const [title, kind, about] = state === "active" ? PAUSE : RESUME;
  const change = () => ask("PATCH", encoded(link), { body: JSON.stringify({ kind }) });
  return h("span", { class: "buttons" },
    action(title, of, [`${callback}: ${about}`], [title, change]),
    action("Delete", of, [`${callback} gets no more changes, and its position is lost.`],
      ["Delete", () => ask("DELETE", encoded(link))]));
}
