// Asking the node that has served this page, with a token if one was given.

const KEPT_AS = "docstore-token";
const SILENT = "The node does not answer. It is asked again every three seconds.";
const UNKNOWN = "The node does not answer: it may have done this. Look before you repeat it.";

let silence = () => {};
let isSilent = false;
let form = async () => false;
let asking = null;

// A refusal by a node. problem: its body (RFC 9457), if it had one.
export class Refused extends Error {
  constructor(status, problem, headers) {
    super(problem.detail || `the node answered ${status}`);
    this.status = status;
    this.problem = problem;
    this.headers = headers;
  }
}

// The node does not answer at all.
export class Silent extends Error {}

// The token of this tab, "" for none. It goes when the tab is closed.
export const token = () => sessionStorage.getItem(KEPT_AS) ?? "";

export function keepToken(text) {
  if (text) sessionStorage.setItem(KEPT_AS, text);
  else sessionStorage.removeItem(KEPT_AS);
}

// shows: a form for the token; resolves with whether to try again, with the token that is kept now.
export function askWith(shows) {
  form = shows;
}

// told(isSilent): called when the node stops answering, and when it answers again.
export function onSilence(told) {
  silence = told;
}

// Ask for a token: once, however many requests are refused meanwhile.
export function askForToken() {
  asking ??= form().finally(() => { asking = null; });
  return asking;
}

// Send a request; return its answer, whatever it is. path: encoded. Throws Silent.
export async function send(method, path, { body, headers = {}, signal } = {}) {
  const shown = token() ? { Authorization: `Bearer ${token()}` } : {};
  const said = body === undefined ? {} : { "Content-Type": "application/json" };
  const all = { ...said, ...headers, ...shown };
  // Two slashes would begin the name of another host, and the token is for this one.
  if (!/^\/(?!\/)/.test(path)) throw new Silent(SILENT);
  try {
    const answer = await fetch(path, { method, body, signal, cache: "no-store", headers: all });
    heard(false);
    return answer;
  } catch (error) {
    if (signal?.aborted) throw error;
    heard(true);
    throw new Silent(method === "GET" ? SILENT : UNKNOWN);
  }
}

function heard(nothing) {
  if (isSilent !== nothing) silence(nothing);
  isSilent = nothing;
}

// Send a request; return {text, headers}. Throws Refused. isQuiet: never asks for a token.
export async function ask(method, path, options = {}) {
  const tried = token();
  const answer = await send(method, path, options);
  const text = await answer.text();
  if (answer.ok) return { text, headers: answer.headers };
  const mayAsk = answer.status === 401 && !options.isQuiet;
  if (mayAsk && (token() !== tried || (await askForToken()))) return ask(method, path, options);
  throw new Refused(answer.status, problemIn(text), answer.headers);
}

// Return a page of the node as a value.
export async function page(path, signal, options = {}) {
  const { text } = await ask("GET", path, { signal, ...options });
  return JSON.parse(text);
}

// How many documents a factory has, or fulfil a condition; null where the user may not count, or
// the group cannot now.
export async function count(link, filter, signal) {
  const asked = { $limit: 1, $count: "true", ...(filter && { $filter: filter }) };
  const found = await page(`${encoded(link)}?${new URLSearchParams(asked)}`, signal)
    .catch(() => ({}));
  return found.documentCount ?? null;
}

// The methods of a resource that this user may use, by the header Allow; none where the node does
// not say.
export async function methodsOf(path, signal) {
  const { headers } = await ask("OPTIONS", path, { signal })
    .catch(() => ({ headers: new Headers() }));
  return new Set((headers.get("Allow") ?? "").split(", "));
}

// The path of a link, as a request has it.
export function encoded(link) {
  return link.split("/").map(encodeURIComponent).join("/");
}

function problemIn(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" ? value : {};
  } catch {
    return {};
  }
}
