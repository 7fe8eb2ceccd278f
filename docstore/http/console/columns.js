// Which members of documents a list shows as columns. The choice is part of the address.

import { h } from "/core/ui/dom.js";
import { toList } from "/core/ui/places.js";

const SEEN_MAX = 60;

// Members of the store that may be columns, and their titles.
export const MEMBERS_OF_STORE = {
  documentVersion: "version", documentUpdateTimeMicros: "written", documentOwner: "owner",
};

// The names in the parameter `columns` of an address; a name may contain any character.
export const columnsIn = (text) => text.split(",").filter(Boolean).map(decodeURIComponent);

// A form to choose columns from the members of the documents that are shown.
export function chooser(link, asked, rows) {
  const chosen = columnsIn(asked.columns);
  const own = rows.flatMap(({ members }) => Object.keys(members))
    .filter((name) => !name.startsWith("document"));
  const names = [...new Set([...chosen, ...own, ...Object.keys(MEMBERS_OF_STORE)])];
  const boxes = names.slice(0, SEEN_MAX).map((name, number) => {
    const id = `column-${number}`;
    const box = h("input", { type: "checkbox", id, value: name, checked: chosen.includes(name) });
    const title = MEMBERS_OF_STORE[name] ?? name;
    return h("span", { class: "box" }, box, h("label", { for: id }, title));
  });
  const onSubmit = (event) => {
    event.preventDefault();
    const found = [...event.target.elements].filter((each) => each.checked);
    const columns = found.map((each) => encodeURIComponent(each.value)).join(",");
    location.hash = toList(link, { ...asked, columns });
  };
  const title = chosen.length > 0 ? `Columns: ${chosen.length}` : "Columns";
  return h("details", { class: "chooser" }, h("summary", {}, title),
    h("form", { onSubmit }, h("div", { class: "boxes" }, boxes),
      h("p", { class: "buttons" }, h("button", {}, "Show these"),
        h("a", { href: toList(link, { ...asked, columns: "" }), class: "button" }, "Reset"))));
}
