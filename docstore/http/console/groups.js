// One group or one set of roles: its members, the holder of each partition, and the lag.

import { button, empty, facts, fill, h, table } from "/core/ui/dom.js";
import { page, repeat } from "/core/ui/node.js";
import { trailOf } from "/core/ui/ownership.js";
import { toDocument, toStream } from "/core/ui/places.js";
import { many, number, span, time } from "/core/ui/words.js";

const LOOK_AGAIN_MS = 3_000;

export async function groupPage(place, route, signal) {
  const [, kind, id] = route.link.split("/");
  const path = `/core/${kind}/${encodeURIComponent(id)}`;
  const shown = h("div", {});
  fill(place, trailOf(kind), h("h1", {}, id), shown);
  await repeat(LOOK_AGAIN_MS, signal, async () => {
    const group = await page(path, signal);
    const lags = kind === "groups" ? await lagsOf(path, group, signal) : null;
    if (signal.aborted) return;
    if (!shown.contains(document.activeElement)) {
      fill(shown, about(group, lags), members(group), partitions(group, lags),
        h("p", { class: "buttons" }, button("Document", toDocument(`/core/${kind}/${id}`))));
    }
  });
}

// "flights/0" -> {offset, end, lag}; the lag is unknown where the leader did not answer.
async function lagsOf(path, { topics = {} }, signal) {
  const [{ offsets }, ...found] = await Promise.all([
    page(`${path}/offsets`, signal),
    ...Object.keys(topics).map((topic) =>
      page(`/core/streams/${encodeURIComponent(topic)}`, signal).catch(() => null)),
  ]);
  const ends = {};
  for (const topic of found.filter(Boolean)) {
    for (const { partition, hw, base } of topic.partitions) {
      ends[`${topic.name}/${partition}`] = { hw, base };
    }
  }
  return Object.fromEntries(offsets.map(({ topic, partition, offset }) => {
    const { hw, base } = ends[`${topic}/${partition}`] ?? {};
    const from = offset < 0 ? base : offset;
    const lag = typeof hw === "number" && typeof from === "number" ? hw - from : null;
    return [`${topic}/${partition}`, { offset, end: hw, lag }];
  }));
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

function members({ members: found = [] }) {
  const nothing = empty("No process is a member now. Partitions are assigned when one joins.");
  return [h("h2", {}, "Members"), table([
    ["member", ([id]) => id, "code name"],
    ["instance", ([, instance]) => instance || "–"],
    ["host", ([, , host]) => host || "–"],
    ["capacity", ([, , , capacity]) => number(capacity), "number"],
    ["since", ([, , , , since]) => time(since)],
  ], found, nothing)];
}

function partitions({ partitionList = [] }, lags) {
  const lagOf = ({ partition }) => lags[partition] ?? {};
  const topicOf = (partition) => partition.slice(0, partition.lastIndexOf("/"));
  const title = (partition) => (lags
    ? h("a", { href: toStream(`/${topicOf(partition)}`, partition.split("/").at(-1)) }, partition)
    : partition);
  return [h("h2", {}, lags ? "Partitions" : "Roles"), table([
    [lags ? "partition" : "role", ({ partition }) => title(partition), "code name"],
    ...(lags ? [
      ["lag", (each) => number(lagOf(each).lag), "number"],
      ["next offset", (each) => (lagOf(each).offset < 0 ? "not read yet"
        : number(lagOf(each).offset)), "number"],
      ["high watermark", (each) => number(lagOf(each).end), "number"],
    ] : []),
    ["token", (each) => number(each.token), "number"],
    ["member", (each) => each.member ?? h("span", { class: "quiet" }, "none"), "code"],
    ["moves to", (each) => (each.target === each.member ? "–" : each.target ?? "–"), "code"],
  ], partitionList)];
}
