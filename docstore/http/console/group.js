// The members of the group, what each owns, and how this node is.

import { facts, h, table } from "/core/ui/dom.js";
import { page } from "/core/ui/node.js";
import { refresh } from "/core/ui/refresh.js";
import { bytes, duration, many, number, percent } from "/core/ui/words.js";

export async function group(place, route, signal) {
  await refresh(place, signal, async () => {
    const [found, selector, node] = await Promise.all([
      page("/core/node-groups/default", signal),
      page("/core/node-selectors/default", signal),
      page("/core/management", signal).catch(() => null),
    ]);
    return shown(found, selector, node);
  });
}

function shown(found, selector, node) {
  const { configuration } = found;
  const vacant = selector.table.filter((slot) => !slot.owner).length;
  const warnings = [...(found.warnings ?? [])];
  const all = many(selector.slots, "slot");
  if (vacant) warnings.unshift(`${number(vacant)} of ${all} have no owner.`);
  return [
    h("h1", {}, "Group"),
    facts([
      ["members", `${number(configuration.members.length)}, ${found.convergence.toLowerCase()}`],
      ["quorum", `${configuration.quorum} of ${many(configuration.voters.length, "voter")}`],
      ["configuration", `${configuration.id}, ${configuration.stage}`],
      ["leader", configuration.leader ?? "not heard of yet"],
      ["copies", configuration.replicationFactor ?? "one on each member"],
      ["slots", number(selector.slots)],
    ]),
    warnings.map((each) => h("p", { class: "warning" }, each)),
    members(found, selector),
    node && thisNode(node),
  ];
}

function members(found, selector) {
  const known = Object.fromEntries(found.members.map((each) => [each.id, each]));
  return table([
    ["node", (each) => each.id],
    ["state", (each) => state(each, known[each.id])],
    ["role", (each) => each.role],
    ["zone", (each) => each.zone || "–"],
    ["slots owned", (each) => number(selector.shares[each.id]?.owned ?? 0), "number"],
    ["share", (each) => share(selector.shares[each.id]?.share ?? 0), "number"],
    ["unchanged for", (each) => duration(known[each.id]?.secondsSinceChange), "number"],
    ["address", (each) => each.address, "code"],
  ], found.configuration.members);
}

function state(member, known) {
  const style = { ALIVE: "well", SUSPECT: "doubtful" }[member.status] ?? "ill";
  const title = member.status === "ALIVE" ? null : known?.why?.at(-1)?.cause;
  return h("span", { class: `state ${style}`, title }, member.status.toLowerCase());
}

function share(part) {
  const bar = h("progress", { value: part, max: 1, "aria-label": "share of the slots" });
  return [bar, h("span", { class: "percent" }, percent(part))];
}

function thisNode(node) {
  const { replicationLag = {}, partitions: parts = {}, disk } = node;
  const lag = Object.entries(replicationLag).map(([peer, rows]) => `${peer} ${number(rows)}`);
  return h("section", {},
    h("h2", {}, `This node: ${node.id}`),
    facts([
      ["ready", node.ready ? "yes" : `no: ${node.reason}`],
      ["version", `${node.version}, protocol ${node.protocol}`],
      ["slots held", node.slots && number(node.slots.held)],
      ["slots faulty", node.slots && number(node.slots.faulty)],
      ["rows that others lack", lag.join(", ")],
      ["partitions led", number(parts.led)],
      ["partitions short", number(parts.short)],
      ["event loop late", `${node.eventLoopLagMs ?? 0} ms`],
      ["requests now", number(node.requestsInFlight)],
      ["disk", disk && `${bytes(disk.freeBytes)} of ${bytes(disk.totalBytes)} free`],
      ["log level", node.logLevel],
    ]));
}
