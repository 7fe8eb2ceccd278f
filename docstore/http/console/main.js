// The console: which page is shown, and the token. Each page is a module with one function
// (place, route, signal) that fills its place; the signal ends whatever it keeps going.

import { changes } from "/core/ui/changes.js";
import { charts } from "/core/ui/charts.js";
import { newFactory, newTopic } from "/core/ui/declare.js";
import { document_, newDocument } from "/core/ui/document.js";
import { field, fill, h } from "/core/ui/dom.js";
import { factories } from "/core/ui/factories.js";
import { group } from "/core/ui/group.js";
import { holders } from "/core/ui/holders.js";
import { interface_ } from "/core/ui/interface.js";
import { list } from "/core/ui/list.js";
import { watchMembers } from "/core/ui/members.js";
import { askForToken, askWith, keepToken, page, Refused, Silent, token } from "/core/ui/node.js";
import { ownership } from "/core/ui/ownership.js";
import { routeOf } from "/core/ui/places.js";
import { dialog } from "/core/ui/questions.js";
import { stream, streams } from "/core/ui/streams.js";
import { subscriptions } from "/core/ui/subscriptions.js";
import { mayLeave } from "/core/ui/unsaved.js";

const VIEWS = {
  changes: [changes, "Changes"],
  charts: [charts, "Charts"],
  document: [document_, "Documents"],
  factories: [factories, "Documents"],
  group: [group, "Group"],
  holders: [holders, "Ownership"],
  interface: [interface_, "Interface"],
  list: [list, "Documents"],
  new: [newDocument, "Documents"],
  "new-factory": [newFactory, "Documents"],
  "new-topic": [newTopic, "Streams"],
  ownership: [ownership, "Ownership"],
  stream: [stream, "Streams"],
  streams: [streams, "Streams"],
  subscriptions: [subscriptions, "Subscriptions"],
};
const FIRST = location.pathname === "/core/docs" ? "interface" : "group";

const TOLD_OF_TOKENS = "Where nodes have an access file, each request shows a token. It is kept in "
  + "this tab until it is closed.";

const AGAIN_MS = 3_000;

let leaving = new AbortController();
let here = location.hash;

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const content = h("div", {});
  fill(document.getElementById("main"), content);
  try {
    const route = routeOf(location.hash);
    const [view, title] = VIEWS[route.view || FIRST] ?? VIEWS[FIRST];
    mark(title);
    document.title = `${route.link || title} – docstore`;
    await view(content, route, signal);
  } catch (error) {
    if (signal.aborted) return;
    content.append(trouble(error)); // A form that is shown stays, with what was typed.
    if (error instanceof Silent) showLater(content, signal);
  }
}

function showLater(content, signal) {
  setTimeout(() => {
    if (signal.aborted) return;
    const isTyping = content.contains(document.activeElement)
      && document.activeElement.matches("input, textarea");
    if (isTyping) showLater(content, signal);
    else show();
  }, AGAIN_MS);
}

// Go to another place, unless an unsaved text keeps the user here. The focus goes to its beginning.
async function arrive() {
  const there = location.hash;
  if (there === here) return;
  if (!(await mayLeave())) {
    history.pushState(null, "", here || location.pathname);
    return;
  }
  begin();
}

// Show the page from its beginning; the focus goes there too.
function begin() {
  here = location.hash;
  for (const each of document.querySelectorAll("dialog")) each.close();
  document.getElementById("main").focus({ preventScroll: true });
  window.scrollTo(0, 0);
  show();
}

// An error of the node, of the way to it, or of the console.
function trouble(error) {
  const isRefused = error instanceof Refused;
  if (!isRefused && !(error instanceof Silent)) console.error(error);
  const code = isRefused && `${error.status} ${error.problem.errorCode ?? ""}`;
  return h("section", { role: "alert" },
    h(document.querySelector("h1") ? "h2" : "h1", {}, code || "This page cannot be shown"),
    h("p", {}, error.message),
    error.status === 404 && token() && h("p", {}, "Or your token does not allow you to read it."),
    h("p", {}, h("button", { type: "button", onClick: show }, "Try again")));
}

function mark(title) {
  for (const each of document.querySelectorAll("nav a")) {
    if (each.textContent === title) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
}

async function tokenForm() {
  const hidden = { type: "password", autocomplete: "off", value: token() };
  const [label, input] = field("Token", "said", hidden);
  const act = (said) => use(said === "keep" ? input.value.trim() : "");
  const said = await dialog("Token", [h("p", {}, TOLD_OF_TOKENS), label, input],
    [["keep", "Use it", "main"], ["forget", "Forget it"], ["", "Cancel"]], act);
  named();
  return said !== "";
}

// Keep a token, "" for none; throws, and keeps the one before, if the node rejects it.
async function use(said) {
  if (!/^[!-~]*$/.test(said)) throw new Error("A token has only printable ASCII.");
  const before = token();
  keepToken(said);
  try {
    if (said) await page("/", undefined, { isQuiet: true });
  } catch (error) {
    keepToken(before);
    throw error.status === 401 ? new Error("The node rejects this token.") : error;
  }
}

// Say which node this is, if it says so, and whether a token is shown.
async function named() {
  document.getElementById("token").classList.toggle("given", token() !== "");
  const entry = await page("/").catch(() => ({}));
  fill(document.getElementById("node"), entry.id ? `${entry.id}, ${entry.version}` : "");
}

document.getElementById("token").addEventListener("click", async () => {
  if ((await mayLeave()) && (await askForToken())) show();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
window.addEventListener("hashchange", arrive);
window.addEventListener("again", begin);
askWith(tokenForm);
watchMembers(document.getElementById("banner"));
named();
show();
