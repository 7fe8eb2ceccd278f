// Addresses within the console. All that says what is shown is in them, so that they can be kept.

import { encoded } from "/core/ui/node.js";

export const FACTORIES = "#/factories";
export const NEW_FACTORY = "#/new-factory";
export const STREAMS = "#/streams";
export const OWNERSHIP = "#/ownership";
export const NEW_TOPIC = "#/new-topic";

// link, topic, prefix: paths. asked: condition, order and page of a list.
export const toList = (link, asked = {}) => `#/list${encoded(link)}${query(asked)}`;
export const toNew = (factory) => `#/new${encoded(factory)}`;
export const toChanges = (prefix) => `#/changes${query({ prefix })}`;
export const toDocument = (link, version) => `#/document${encoded(link)}${query({ version })}`;
export const toStream = (topic, partition) => `#/stream${encoded(topic)}${query({ partition })}`;
export const toOwnership = (kind) => `${OWNERSHIP}/${kind}`;
// link: of a lock, an election, a lease, a group or roles.
export const toHolder = (link) => `#/holders${encoded(link.slice("/core".length))}`;

// "/notes/a": its name is "a", and it is in "/notes".
export const nameOf = (link) => link.slice(link.lastIndexOf("/") + 1);
export const above = (link) => link.slice(0, link.lastIndexOf("/"));

// #/document/notes/a?version=3 is {view: "document", link: "/notes/a", query}.
export function routeOf(hash) {
  const [path, asked = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...segments] = path.split("/");
  const link = segments.map((each) => `/${decodeURIComponent(each)}`).join("");
  return { view, link, query: new URLSearchParams(asked) };
}

// Go to a place; if the page is there already, show it anew.
export function go(place) {
  if (new URL(place, location.href).hash === location.hash) again();
  else location.hash = place;
}

// Show the page anew, from its beginning.
export function again() {
  window.dispatchEvent(new Event("again"));
}

function query(asked) {
  const said = Object.entries(asked).filter(([, value]) => value !== undefined && value !== "");
  return said.length > 0 ? `?${new URLSearchParams(said)}` : "";
}
