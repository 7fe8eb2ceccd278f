// The members that this node knew, for the time when it does not answer: a banner with links.

import { fill, h, memberLink } from "/core/ui/dom.js";
import { onSilence, page } from "/core/ui/node.js";

const KEPT_AS = "docstore-members";
const LOOK_AGAIN_MS = 5_000;

// Remember the live members now and later, and show the banner while the node is silent.
export function watchMembers(place) {
  let isSilent = false;
  const update = () => fill(place, isSilent && banner());
  onSilence((nothing) => {
    isSilent = nothing;
    update();
  });
  window.addEventListener("hashchange", update); // The links lead to the page that is shown.
  const look = async () => {
    if (!document.hidden) await remember().catch(() => {});
    setTimeout(look, LOOK_AGAIN_MS);
  };
  look();
}

async function remember() {
  const { members } = await page("/core/node-groups/default", undefined, { isQuiet: true });
  const found = members.filter(({ status }) => ["ALIVE", "SUSPECT"].includes(status))
    .map(({ id, address }) => ({ id, address }));
  sessionStorage.setItem(KEPT_AS, JSON.stringify(found));
}

function known() {
  return JSON.parse(sessionStorage.getItem(KEPT_AS) ?? "[]");
}

function banner() {
  const others = known().filter(({ address }) => new URL(address).host !== location.host);
  const links = others.map(({ id, address }) => memberLink(id, address, location.hash));
  return h("div", { class: "banner", role: "alert" },
    h("p", {}, h("strong", {}, "This node does not answer. "),
      "The console asks it again every few seconds. Until then this page stays as it is."),
    links.length > 0
      ? h("p", {}, "Go on at another member: ", links)
      : h("p", {}, "Open the console of another member of the group."));
}
