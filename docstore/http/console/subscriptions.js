// Subscriptions: the receivers to which nodes deliver changes.

import { empty, fill, h, table } from "/core/ui/dom.js";
import { ask, encoded, methodsOf, page } from "/core/ui/node.js";
import { toDocument, toList } from "/core/ui/places.js";
import { many, number } from "/core/ui/words.js";

const PATH = "/core/subscriptions";
const LIMIT = 200;
const COMMAND = "docstore subscription create /films https://hooks.example.com/films";
const COMMANDS = { active: ["PauseRequest", "Pause"], paused: ["ResumeRequest", "Resume"] };

export async function subscriptions(place, route, signal) {
  const told = h("p", { role: "alert" });
  const shown = h("div", {});
  fill(place, h("h1", {}, "Subscriptions"), told, shown);
  const look = async () => {
    const found = await page(`${PATH}?$expand=true&$limit=${LIMIT}`, signal);
    const rows = Object.entries(found.documents ?? {}).map(([link, each]) => ({ link, ...each }));
    const methods = rows.length > 0 ? await methodsOf(encoded(rows[0].link), signal) : new Set();
    if (signal.aborted) return;
    fill(shown, h("p", { class: "quiet" }, many(rows.length, "subscription"), found.nextPageLink
      && [", more follow in ", h("a", { href: toList(PATH) }, "the list")]),
    table(columns(methods, told, look), rows, empty("No receiver is told of changes yet. The "
      + "operator must allow its host first. Then:", h("p", {}, h("code", {}, COMMAND)))));
  };
  await look();
}

function columns(methods, told, look) {
  const command = ({ link, state }) => {
    const [kind, title] = COMMANDS[state] ?? [];
    const onClick = async () => {
      try {
        await ask("PATCH", encoded(link), { body: JSON.stringify({ kind }) });
        fill(told);
        await look();
      } catch (error) {
        fill(told, error.message);
      }
    };
    return kind && methods.has("PATCH") && h("button", { type: "button", onClick }, title);
  };
  const style = { active: "well", paused: "doubtful" };
  return [
    ["path", ({ path }) => path, "code name"],
    ["state", ({ state }) => h("span", { class: `state ${style[state] ?? "ill"}` }, state)],
    ["receiver", ({ callback }) => callback, "code"],
    ["delivered", ({ delivered }) => number(delivered), "number"],
    ["condition", ({ where }) => where || "–", "code"],
    ["reason", ({ why }) => why || "–"],
    ["document", ({ link }) => h("a", { href: toDocument(link) }, link.split("/").at(-1)), "code"],
    ["action", command],
  ];
}
