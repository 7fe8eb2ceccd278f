// Pages that are read again every few seconds while they are shown.

import { fill, h, table } from "/core/ui/dom.js";
import { page, Silent } from "/core/ui/node.js";
import { toList } from "/core/ui/places.js";
import { many } from "/core/ui/words.js";

const LOOK_AGAIN_MS = 3_000;
const LIMIT = 200;
const FOCUSED = "a, button, input, summary, [tabindex]";

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Call look(number) at once, and again every few milliseconds until the signal ends the page. After
// the first time a failure of the node ends nothing: the page stays, and goes on later.
export async function repeat(ms, signal, look) {
  for (let looks = 0; !signal.aborted; looks += 1) {
    await look(looks).catch((error) => {
      if (looks === 0 || !(error instanceof Silent || error.status >= 500)) throw error;
    });
    await pause(ms);
  }
}

// Fill a place with what look(number) returns, now and every few seconds. A selected text and an
// open dialog put it off.
export async function refresh(place, signal, look) {
  await repeat(LOOK_AGAIN_MS, signal, async (looks) => {
    const content = await look(looks);
    const isUsed = looks > 0 && (isSelected(place) || document.querySelector("dialog"));
    if (!signal.aborted && !isUsed) replace(place, content);
  }).catch((error) => {
    fill(place); // The old content is gone, or not for this user any more.
    throw error;
  });
}

// Replace the content of a place; the focus stays, and tables stay scrolled.
function replace(place, content) {
  const focused = document.activeElement.cloneNode(false);
  const alike = () => [...place.querySelectorAll(FOCUSED)]
    .filter((each) => each.cloneNode(false).isEqualNode(focused));
  const at = alike().indexOf(document.activeElement);
  const tables = () => [...place.querySelectorAll(".wide")];
  const scrolled = tables().map((each) => each.scrollLeft);
  fill(place, content);
  tables().forEach((each, number) => { each.scrollLeft = scrolled[number] ?? 0; });
  alike()[at]?.focus({ preventScroll: true });
}

// Fill a place with the documents of a factory as a table, now and every few seconds. word: for one
// of them. nothing: shown in place of an empty table.
export async function refreshList(place, signal, { path, word, columns, nothing }) {
  await refresh(place, signal, async () => {
    const found = await page(`${path}?$expand=true&$limit=${LIMIT}`, signal);
    const rows = Object.entries(found.documents ?? {}).map(([link, each]) => ({ ...each, link }));
    return [
      h("p", { class: "quiet" }, many(rows.length, word), found.nextPageLink
        && [", more follow in ", h("a", { href: toList(path) }, "the list")]),
      table(columns, rows, nothing),
    ];
  });
}

function isSelected(place) {
  const { type, anchorNode } = getSelection();
  return type === "Range" && place.contains(anchorNode);
}
