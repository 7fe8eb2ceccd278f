// One group or one set of roles: its members, the holder of each partition, and the lag.

import { empty, facts, field, h, table } from "/core/ui/dom.js";
import { wholeIn } from "/core/ui/form.js";
import { ask, encoded, page } from "/core/ui/node.js";
import { above, nameOf, toOwnership, toStream } from "/core/ui/places.js";
import { action, deletion } from "/core/ui/questions.js";
import { duration, many, number, span } from "/core/ui/words.js";

export async function groupContent(link, group, may, signal) {
  const lags = link.startsWith("/core/groups/") ? await lagsOf(link, signal) : null;
  const { members: found = [], partitionList = [] } = group;
  const mayRemove = found.length > 0 && await may("DELETE", `${link}/members/${found[0][0]}`);
  const isIdle = found.length === 0;
  const mayReset = lags && isIdle && partitionList.length > 0
    && await may("PATCH", `${link}/offsets/${partitionList[0].partition}`);
  return [
    about(group, lags),
    isIdle && await may("DELETE", link) && h("p", { class: "buttons" },
      deletion(link, lags ? "Its offsets are deleted too: a group of this name begins anew."
        : "A process that asks for one of its roles finds none.",
      toOwnership(lags ? "groups" : "roles"))),
    members(link, group, mayRemove),
    partitions(link, group, lags, mayReset),
  ];
}

// "flights/0" -> {offset, start, end, lag}; start, end and lag are null where its leader is silent.
async function lagsOf(link, signal) {
  const { offsets } = await page(`${encoded(link)}/offsets`, signal);
  return Object.fromEntries(offsets.map((each) => [`${each.topic}/${each.partition}`, each]));
}

function about(group, lags) {
  const all = lags && Object.values(lags).map(({ lag }) => lag);
  const isWhole = all?.every((lag) => typeof lag === "number");
  const sum = all?.reduce((one, other) => one + (other ?? 0), 0);
  return facts([
    ["state", (group.state ?? "").toLowerCase()],
    ["lag", lags && `${isWhole ? "" : "at least "}${many(sum, "record")}`],
    ["generation", number(group.generation)],
    ["mode", group.settings?.mode],
    ["session", span(group.settings?.sessionMs)],
    ["live figures", group.stale ? "the coordinator does not answer" : null],
  ]);
}

function members(link, { members: found = [], live }, mayRemove) {
  const nothing = empty("No process is a member now. Partitions are assigned when one joins.");
  const heard = (id) => {
    if (live?.[id]?.fenced) return "fenced";
    return live?.[id] ? `heard ${duration(live[id].heardMs / 1_000)} ago` : "–";
  };
  const remove = (id) => action("Remove", id, ["Its partitions go to other members once its "
    + "session has expired. If its process still runs, it stops, and may join again as a new "
    + "member."], ["Remove", () => ask("DELETE", encoded(`${link}/members/${id}`) + "?force")]);
  return [h("h2", {}, "Members"), table([
    ["member", ([id]) => id, "code"],
    ["instance", ([, instance]) => instance || "–"],
    ["host", ([, , host]) => host || "–"],
    ["capacity", ([, , , capacity]) => (capacity === 0 ? "leaving" : number(capacity)), "number"],
    ["since generation", ([, , , , since]) => number(since), "number"],
    ["state", ([id]) => heard(id)],
    ["action", ([id]) => mayRemove && !live?.[id]?.fenced && remove(id)],
  ], found, nothing)];
}

function partitions(link, { partitionList = [] }, lags, mayReset) {
  const lagOf = ({ partition }) => lags[partition] ?? {};
  const title = (partition) => (lags
    ? h("a", { href: toStream(`/${above(partition)}`, nameOf(partition)) }, partition)
    : partition);
  return [h("h2", {}, lags ? "Partitions" : "Roles"), table([
    [lags ? "partition" : "role", ({ partition }) => title(partition), "code"],
    ...(lags ? [
      ["lag", (each) => number(lagOf(each).lag), "number"],
      ["next offset", (each) => (lagOf(each).offset < 0 ? "not read yet"
        : number(lagOf(each).offset)), "number"],
      ["high watermark", (each) => number(lagOf(each).end), "number"],
    ] : []),
    ["token", (each) => number(each.token), "number"],
    ["member", (each) => each.member ?? h("span", { class: "quiet" }, "none"), "code"],
    ["moves to", (each) => (each.target === each.member ? "–" : each.target ?? "–"), "code"],
    ...(mayReset ? [["action", (each) => reset(link, each.partition, lagOf(each))]] : []),
  ], partitionList)];
}

// A button that sets the offset from which a group without members reads on.
function reset(link, partition, { offset, start, end }) {
  const value = Math.max(offset, start ?? 0);
  const [label, input] = field("Next offset", "offset", { type: "number", min: 0, value });
  const act = () => {
    const body = JSON.stringify({ kind: "ResetRequest", offset: wholeIn("offset", input.value) });
    return ask("PATCH", encoded(`${link}/offsets/${partition}`), { body });
  };
  return action("Reset", partition, [
    `The group reads on from there: records before it are skipped, records from it are read again. `
      + `The partition begins at ${number(start)} and ends at ${number(end)}.`,
    [label, input],
  ], ["Reset", act]);
}
