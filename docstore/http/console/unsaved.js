// A question before a text that was typed is lost: by a link, by Back, or with the tab.

import { h } from "/core/ui/dom.js";
import { dialog } from "/core/ui/questions.js";

let isUnsaved = () => false;
let asking = null;

// Ask before the page is left while isDirty() holds, until the signal ends the page. Returns a
// function that ends it earlier, for what has been saved.
export function guard(isDirty, signal) {
  isUnsaved = isDirty;
  const release = () => { if (isUnsaved === isDirty) isUnsaved = () => false; };
  signal.addEventListener("abort", release);
  return release;
}

// Whether the page may be left; asks the user if a text would be lost, once at a time.
export async function mayLeave() {
  if (!isUnsaved()) return true;
  asking ??= ask().finally(() => { asking = null; });
  return asking;
}

async function ask() {
  const said = await dialog("Leave without saving?", h("p", {}, "Your text is not saved."),
    [["", "Stay"], ["leave", "Leave it", "danger"]]);
  if (said === "leave") isUnsaved = () => false;
  return said === "leave";
}

window.addEventListener("beforeunload", (event) => { if (isUnsaved()) event.preventDefault(); });

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const opensElsewhere = event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0;
  if (!link || link.matches(".skip, [target]") || opensElsewhere || !isUnsaved()) return;
  event.preventDefault();
  mayLeave().then((may) => { if (may) location.assign(link.href); });
}, { capture: true });
