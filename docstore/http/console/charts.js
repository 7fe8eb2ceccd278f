// Small charts of the last minutes: writes and lag of each node, reads and p99 of this one.

import { fill, h } from "/core/ui/dom.js";
import { ask, page } from "/core/ui/node.js";
import { p99, perSecond, requestsIn } from "/core/ui/rates.js";
import { repeat } from "/core/ui/refresh.js";
import { number } from "/core/ui/words.js";

const LOOK_AGAIN_MS = 2_000;
const POINTS = 150;
const P99_OVER = 5;
const SERIES = 6;
const HEIGHT = 170;
const SECONDS_LEAST = 60;
const PAGES = "/core/node-selectors/default/forwarding?target=ALL&path=/core/management";
const CHARTS = [
  ["writes", "Writes", "versions a second, by owner", 1],
  ["reads", "Reads", "GET requests a second at this node, with those of this page", 1],
  ["p99", "Latency, p99", "milliseconds, of requests at this node in the last 10 seconds", 1],
  ["lag", "Lag", "rows that a node has not acknowledged to owners", 0],
];

export async function charts(place, route, signal) {
  const plots = CHARTS.map(([key, title, unit, digits]) => plot(key, title, unit, digits));
  fill(place, h("h1", {}, "Charts"),
    h("p", { class: "quiet" }, "The last five minutes, while this page is open. For all nodes and "
      + "longer times, let Prometheus read /metrics."),
    h("div", { class: "charts" }, plots.map((each) => each.place)));
  const uPlot = await library();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const draw = () => plots.forEach((each) => each.draw(uPlot));
  dark.addEventListener("change", draw, { signal });
  window.addEventListener("resize", draw, { signal });
  const seen = [];
  await repeat(LOOK_AGAIN_MS, signal, async () => {
    seen.push(await sample(signal));
    if (seen.length > POINTS) seen.shift();
    const rows = seen.map((now, at) => values(now, seen[at - 1], seen[Math.max(0, at - P99_OVER)]));
    plots.forEach((each) => each.take(seen.map(({ at }) => at), rows));
    draw();
  });
}

async function sample(signal) {
  const [{ text }, { jsonResponses }] = await Promise.all([
    ask("GET", "/metrics", { signal }), page(PAGES, signal),
  ]);
  return { at: Date.now() / 1_000, requests: requestsIn(text), nodes: jsonResponses };
}

// The values of all charts at one time: {writes: {n1: 12}, ...}.
function values(now, before, earlier) {
  const seconds = before ? now.at - before.at : 0;
  const madeBy = (sampled, id) => {
    const { proposed = 0, executed = 0 } = sampled?.nodes[id]?.counters ?? {};
    return proposed + executed;
  };
  const writes = {};
  const lag = {};
  for (const [id, node] of Object.entries(now.nodes)) {
    writes[id] = perSecond(madeBy(now, id), before?.nodes[id] && madeBy(before, id), seconds);
    for (const [peer, rows] of Object.entries(node.replicationLag ?? {})) {
      lag[peer] = (lag[peer] ?? 0) + rows;
    }
  }
  const reads = perSecond(now.requests.reads.count, before?.requests.reads.count, seconds);
  return {
    writes, lag, reads: { reads },
    p99: {
      reads: p99(now.requests.reads, earlier?.requests.reads),
      writes: p99(now.requests.writes, earlier?.requests.writes),
    },
  };
}

// A chart with its title, its legend with the last values, and the same in words.
function plot(key, title, unit, digits) {
  const canvas = h("div", { class: "canvas", role: "img", "aria-label": title });
  const legend = h("ul", { class: "legend" });
  const place = h("figure", {}, h("figcaption", {}, h("h2", {}, title),
    h("p", { class: "quiet" }, unit)), canvas, h("hr"), legend);
  let data = [[]];
  let names = [];
  const shown = (value) => (typeof value === "number"
    ? value.toLocaleString("en", { maximumFractionDigits: digits }) : "–");
  const take = (times, rows) => {
    names = [...new Set(rows.flatMap((row) => Object.keys(row[key])))].sort().slice(0, SERIES);
    data = [times, ...names.map((name) => rows.map((row) => row[key][name] ?? null))];
    const last = rows.at(-1)[key];
    fill(legend, names.map((name, number_) =>
      h("li", { class: `series-${number_ + 1}` }, `${name} ${shown(last[name])}`)));
    if (names.length === 0) fill(canvas, h("p", { class: "quiet" }, "There are no values yet."));
    const told = names.map((name) => `${name} ${shown(last[name])}`).join(", ");
    canvas.setAttribute("aria-label", `${title}, ${unit}: ${told || "no values yet"}`);
  };
  let made = null;
  const draw = (uPlot) => {
    if (names.length === 0) return;
    made?.destroy();
    fill(canvas);
    made = new uPlot(options(place, names), data, canvas);
  };
  return { place, take, draw };
}

// A canvas knows no custom properties of CSS: colours are those of elements beside it.
function options(place, names) {
  const colour = (chosen, of = "color") => getComputedStyle(place.querySelector(chosen))[of];
  const line = { stroke: colour("hr", "borderTopColor"), width: 1 };
  const axis = { stroke: colour("p"), grid: line, ticks: line, font: "12px system-ui, sans-serif" };
  const clock = (each) => new Date(each * 1_000).toTimeString().slice(0, 8);
  return {
    width: place.querySelector(".canvas").clientWidth, height: HEIGHT,
    legend: { show: false }, cursor: { show: false },
    scales: {
      x: { range: (_, first, last) => [Math.min(first, last - SECONDS_LEAST), last] },
      y: { range: (_, least, greatest) => [0, Math.max(1, greatest * 1.1)] },
    },
    axes: [
      { ...axis, space: 90, values: (_, marks) => marks.map(clock) },
      { ...axis, size: 56, values: (_, marks) => marks.map((each) => number(each)) },
    ],
    series: [{}, ...names.map((label, at) => ({
      label, width: 2, stroke: colour(`.series-${at + 1}`), points: { show: false },
    }))],
  };
}

// uPlot is a script of its own, loaded when a chart is first shown (docs/decisions).
let loading = null;
function library() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.addEventListener("load", () => resolve(window.uPlot));
    script.addEventListener("error", () => reject(new Error("the charts could not be loaded")));
    script.src = "/core/ui/uplot.js";
    document.head.append(script);
  });
  return loading;
}
