// One lock, election, lease, group or set of roles, and what may be done with it.

import { button, fill, h } from "/core/ui/dom.js";
import { groupContent } from "/core/ui/groups.js";
import { leaseContent } from "/core/ui/leases.js";
import { encoded, methodsOf, page } from "/core/ui/node.js";
import { trailOf } from "/core/ui/ownership.js";
import { toDocument } from "/core/ui/places.js";
import { queueContent } from "/core/ui/queue.js";
import { refresh } from "/core/ui/refresh.js";

// Functions of (link, document, may, signal). may(method, link): whether the user may send it.
const CONTENT = {
  locks: queueContent, elections: queueContent, leases: leaseContent, groups: groupContent,
  roles: groupContent,
};

export async function holders(place, route, signal) {
  const [, kind, id] = route.link.split("/");
  const link = `/core/${kind}/${id}`;
  const shown = h("div", {});
  fill(place, trailOf(kind), h("h1", {}, id), shown);
  const asked = {};
  const may = async (method, of) => {
    asked[of] ??= methodsOf(encoded(of), signal);
    return (await asked[of]).has(method);
  };
  await refresh(shown, signal, async () => {
    const found = await page(encoded(link), signal);
    return [await CONTENT[kind](link, found, may, signal),
      h("p", { class: "buttons" }, button("Document", toDocument(link)))];
  });
}
