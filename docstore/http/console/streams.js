// The list of topics. The page of one topic: its partitions with their leaders and the followers
// that lag, and its last records.

import { newRecord } from "/core/ui/declare.js";
import { button, empty, facts, fill, h, table } from "/core/ui/dom.js";
import { elementsOf, line, objectOf } from "/core/ui/json.js";
import { ask, encoded, methodsOf, page, Refused } from "/core/ui/node.js";
import { NEW_TOPIC, STREAMS, toDocument, toStream } from "/core/ui/places.js";
import { refresh } from "/core/ui/refresh.js";
import { bytes, duration, number, time } from "/core/ui/words.js";

const LAST_RECORDS = 20;
const TOPICS = "/core/streams";

export async function streams(place, route, signal) {
  const [{ documents = {} }, methods] = await Promise.all([
    page(`${TOPICS}?expand`, signal), methodsOf(TOPICS, signal),
  ]);
  if (signal.aborted) return;
  const topics = Object.values(documents);
  const create = () => methods.has("POST") && button("Create a topic", NEW_TOPIC);
  fill(place, h("h1", {}, "Streams"),
    h("p", { class: "line" }, topics.length > 0 && create()),
    table([
      ["topic", (each) => h("a", { href: toStream(`/${each.name}`) }, each.name)],
      ["partitions", (each) => number(each.partitions), "number"],
      ["replicas", (each) => number(each.replicationFactor), "number"],
      ["needed in sync", (each) => number(each.minInSync), "number"],
      ["kept for", (each) => kept(each.retention)],
      ["state", (each) => each.resolution],
    ], topics, empty("There is no topic yet. A topic is a stream of records, in partitions.",
      create())));
}

export async function stream(place, route, signal) {
  const link = `${TOPICS}${route.link}`;
  const shown = h("div", {});
  const appending = h("section", {});
  const records = h("section", {});
  const chosen = Number(route.query.get("partition") ?? 0);
  fill(place, h("p", { class: "trail" }, h("a", { href: STREAMS }, "Streams")),
    h("h1", {}, route.link.slice(1)), shown, appending, records);
  const methods = await methodsOf(`${encoded(link)}/records`, signal);
  const topic = refresh(shown, signal, async (looks) => {
    const found = await page(encoded(link), signal);
    if (looks === 0 && methods.has("POST")) append(appending, link, found, signal);
    return ofTopic(route.link, found, chosen);
  });
  await Promise.all([topic, refresh(records, signal, () => last(link, chosen, signal))]);
}

// A form for a record, closed at first; what was appended is shown as a link to its partition.
function append(place, link, topic, signal) {
  const told = h("p", { "aria-live": "polite" });
  const inside = h("div", {});
  const ready = () => fill(inside, newRecord(link, topic.partitionCount, after, signal));
  const after = ({ partition, base }) => {
    const title = `offset ${number(base)} of partition ${partition}`;
    fill(told, "Appended at ", h("a", { href: toStream(`/${topic.name}`, partition) }, title), ".");
    ready();
  };
  ready();
  const shown = h("details", { class: "chooser" }, h("summary", {}, "Append a record"), inside);
  fill(place, shown, told);
}

function ofTopic(link, topic, chosen) {
  return [
    facts([
      ["partitions", number(topic.partitionCount)],
      ["replicas", number(topic.replicationFactor)],
      ["needed in sync", number(topic.minInSync)],
      ["kept for", kept(topic.retention)],
      ["state", topic.resolution],
      ["document", h("a", { href: toDocument(`${TOPICS}${link}`), class: "code" }, "settings")],
    ]),
    table([
      ["partition", (each) => h("a", {
        href: toStream(link, each.partition),
        "aria-current": each.partition === chosen ? "true" : null,
      }, number(each.partition)), "number"],
      ["leader", (each) => each.leader || h("span", { class: "state ill" }, "none")],
      ["epoch", (each) => number(each.epoch), "number"],
      ["live replica set", (each) => live(each)],
      ["begins at", (each) => number(each.base), "number"],
      ["high watermark", (each) => number(each.hw), "number"],
      ["log ends at", (each) => number(each.leo), "number"],
      ["followers lag by", (each) => lag(each)],
    ], topic.partitions),
  ];
}

function live(partition) {
  const set = new Set((partition.lrs ?? []).map(([node]) => node));
  const shown = (partition.replicas ?? []).map((node) => (set.has(node) ? node : `(${node})`));
  const style = set.size < (partition.replicas ?? []).length ? "state doubtful" : "state well";
  return h("span", { class: style, title: "in brackets: not in it" }, shown.join(", "));
}

function lag(partition) {
  const told = (partition.followers ?? []).map((each) => `${each.id} ${number(each.lag)}`);
  return told.join(", ") || "–";
}

async function last(link, partition, signal) {
  const path = `${encoded(link)}/partitions/${partition}/records`;
  const asked = new URLSearchParams({ from: `end-${LAST_RECORDS}`, maxRecords: LAST_RECORDS });
  const headers = { Accept: "application/json" };
  const found = await ask("GET", `${path}?${asked}`, { signal, headers }).catch((error) => {
    if (error instanceof Refused) return error;
    throw error;
  });
  const title = h("h2", {}, `Last records of partition ${partition}`);
  if (found instanceof Refused) return [title, h("p", { class: "warning" }, found.message)];
  const rows = elementsOf(objectOf(found.text).records).reverse().map(objectOf);
  return [title, table([
    ["offset", (each) => each.offset, "number"],
    ["appended", (each) => time(Number(each.timestampMicros))],
    ["key", (each) => JSON.parse(each.key ?? each.keyBase64 ?? "null") ?? "–", "code"],
    ["value", (each) => line(each.value ?? each.valueBase64 ?? "tombstone"), "code excerpt"],
  ], rows, empty("This partition has no records."))];
}

function kept(retention = {}) {
  const { ms, bytes: size } = retention;
  return [ms && duration(ms / 1_000), size && bytes(size)].filter(Boolean).join(", ") || "ever";
}
