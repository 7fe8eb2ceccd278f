// How values are spelled for people.

const NUMBERS = new Intl.NumberFormat("en");
const MICROS = 1_000;

export const number = (value) => (typeof value === "number" ? NUMBERS.format(value) : "–");

export const percent = (share) => `${Math.round(share * 100)} %`;

export function many(count, one, more = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : more}`;
}

// An instant in this browser's zone: "2026-11-26 07:18:14".
export function time(micros) {
  if (!micros) return "–";
  const at = new Date(micros / MICROS);
  const two = (part) => String(part).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  return `${day} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":")}`;
}

export function duration(seconds) {
  if (typeof seconds !== "number") return "–";
  for (const [unit, size] of [["d", 86_400], ["h", 3_600], ["min", 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

export function bytes(count) {
  if (typeof count !== "number") return "–";
  let left = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (left < 1_024) return `${number(Math.round(left))} ${unit}`;
    left /= 1_024;
  }
  return `${number(Math.round(left))} TiB`;
}

// Milliseconds, as their owner has written them: "500 ms", "10 s".
export function span(ms) {
  if (typeof ms !== "number") return "–";
  return ms % 1_000 === 0 ? duration(ms / 1_000) : `${number(ms)} ms`;
}
