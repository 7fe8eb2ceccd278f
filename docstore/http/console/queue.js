// A lock or an election: the holder, the candidates that wait, and the end of their turns.

import { facts, h, table } from "/core/ui/dom.js";
import { line } from "/core/ui/json.js";
import { ending, expire, left } from "/core/ui/leases.js";
import { ask, encoded, page } from "/core/ui/node.js";
import { nameOf, toHolder, toOwnership } from "/core/ui/places.js";
import { action, deletion } from "/core/ui/questions.js";
import { pause } from "/core/ui/refresh.js";
import { duration, number, span } from "/core/ui/words.js";

const WAITING_SHOWN = 50;
// Share of its TTL after which a holder without keep-alives has stopped by its own clock.
const STOPPED_AFTER = 0.7;
const WORDS = {
  locks: { holder: "held by", end: "Break", leave: "ReleaseRequest" },
  elections: { holder: "leader", end: "Resign", leave: "ResignRequest" },
};

export async function queueContent(link, found, may, signal) {
  const { holder, queue, token, vacant } = found;
  const kind = link.split("/")[2];
  const words = WORDS[kind];
  const lease = holder?.lease && await page(encoded(holder.lease), signal).catch(() => null);
  const shown = queue.slice(0, WAITING_SHOWN);
  const acts = await Promise.all(shown.map((each) => actsOf(link, found, each, words, may)));
  const value = (each) => line(JSON.stringify(each.value));
  return [
    facts([
      [words.holder, holder?.candidate ?? `none${vacant && `: the last one ${vacant}`}`],
      ["token", number(token)],
      ["lease", holder?.lease && toLease(holder)],
      ["state of the lease", lease?.state],
      ["left", lease && left(lease)],
      ["value", holder && holder.value !== null && h("span", { class: "code" }, value(holder))],
      ["grace", found.graceMs > 0 && span(found.graceMs)],
    ]),
    h("p", { class: "buttons" }, await endOf(link, holder, lease, words, may),
      !holder && shown.length === 0 && await may("DELETE", link) && deletion(link,
        "If it is used again, its tokens go on from here.", toOwnership(kind))),
    h("h2", {}, "Waiting"),
    table([
      ["candidate", (each) => each.candidate, "code"],
      ["lease", toLease, "code"],
      ...(shown.some((each) => each.value !== null) ? [["value", value, "code cell"]] : []),
      ["actions", (each) => acts[shown.indexOf(each)]],
    ], queue, "No candidate waits.", WAITING_SHOWN),
  ];
}

function toLease({ lease }) {
  return lease ? h("a", { href: toHolder(lease) }, nameOf(lease)) : "–";
}

async function endOf(link, holder, lease, words, may) {
  if (!lease) return null;
  const about = [`${holder.candidate} loses its turn, and all other turns under its lease. The `
    + "next candidate follows."];
  return ending(words.end, nameOf(link), about, { link: holder.lease, state: lease.state, may });
}

// Buttons for a candidate that waits.
async function actsOf(link, found, waiting, words, may) {
  const { holder } = found;
  if (!waiting.lease || !await may("PATCH", link)) return null;
  const mayPass = words === WORDS.elections && holder?.lease && await may("PATCH", holder.lease);
  const withdraw = { kind: words.leave, candidate: waiting.candidate, lease: waiting.lease };
  return h("span", { class: "buttons" },
    mayPass && action("Transfer", `to ${waiting.candidate}`, [
      `Once ${holder.candidate} stops: its lease is renewed no longer, so it stops by its own `
        + `clock, and then ${waiting.candidate} leads. Keep this page open until then.`,
      `Now: only if ${holder.candidate} has certainly stopped. Else two may lead at once.`,
    ], [`Once ${holder.candidate} stops`, (told) => transferLater(link, found, waiting, told),
      "main"],
    ["Now", () => transfer(link, found, waiting)]),
    await may("PATCH", waiting.lease) && action("Withdraw", waiting.candidate,
      ["It waits no longer. It may ask again, and is the last then."],
      ["Withdraw", () => request(link, withdraw)]));
}

async function transferLater(link, found, waiting, { tell, signal }) {
  const { ttlMs } = await expire(found.holder.lease);
  const ms = ttlMs * STOPPED_AFTER;
  tell(`${found.holder.candidate} stops within ${duration(ms / 1_000)}.`);
  await pause(ms);
  if (!signal.aborted) await transfer(link, found, waiting);
}

function transfer(link, { holder, token }, { candidate: to }) {
  return request(link, { kind: "TransferRequest", candidate: holder.candidate, token, to });
}

function request(link, asked) {
  return ask("PATCH", encoded(link), { body: JSON.stringify(asked) });
}
