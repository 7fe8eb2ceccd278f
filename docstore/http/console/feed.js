// Follow the changes of documents from a web page, without end and without a gap.
//
//   const { follow } = await import(`${urls[0]}/core/ui/feed.js`); // urls: of some nodes
//   for await (const change of follow(urls, { path: "/films", where: "rating > 7" }))
//     console.log(change.event, change.link, change.body);
//
// Each node must name the page's origin in its setting allowed_origins. When a node dies, the next
// one continues. Leave the loop with `break`, or give a `signal`.

const PAUSE_MS = 1_000;
const SILENCE_MS = 40_000; // A node sends its position every 15 seconds.

// A node rejects the request, and would reject it again. status: of HTTP; code: `errorCode`.
export class Refused extends Error {
  constructor(problem) {
    super(problem.detail ?? `status ${problem.status}`);
    Object.assign(this, { name: "Refused", status: problem.status, code: problem.errorCode });
  }
}

// Yield { link, version, action, body, deleted, event, before, position } for each change.
//
// path: a document, or a path and all below it, or an array of them. where: a condition; `event` is
// then "enter", "update" or "leave". before: add the body of each version before. since: `position`
// of an earlier change, "latest", "earliest" or a time. token: for nodes with an access file.
export async function* follow(urls, options = {}) {
  const { path = "", where = "", before = false, token = "", signal } = options;
  let since = options.since ?? "latest";
  for (let turn = 0; !signal?.aborted; turn += 1) {
    const broken = new AbortController();
    try {
      const answer = await fetch(`${urls[turn % urls.length]}/core/changes`, {
        method: "POST",
        headers: {
          "Content-Type": "application/json", Accept: "text/event-stream",
          ...(token && { Authorization: `Bearer ${token}` }),
        },
        body: JSON.stringify({ prefix: path, since, where, ...(before && { before }) }),
        signal: AbortSignal.any([broken.signal, ...(signal ? [signal] : [])]),
      });
      if (!answer.ok) await refuse(answer);
      let waiting = [];
      for await (const { event, data, id } of events(answer.body, () => broken.abort())) {
        if (event === "problem") throw problemOf(JSON.parse(data));
        if (event === "change") waiting.push(JSON.parse(data));
        if (!id) continue;
        since = id;
        for (const change of waiting) yield changeOf(change, since);
        waiting = [];
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof Refused) throw error;
    } finally {
      broken.abort(); // Close the connection, also when the caller leaves its loop.
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

function changeOf(line, position) {
  const { documentSelfLink: link, documentVersion: version, documentUpdateAction: action } = line;
  const { body, deleted, event, before } = line;
  return { link, version, action, body: deleted ? null : body, deleted, event, before, position };
}

async function refuse(answer) {
  const problem = await answer.json().catch(() => ({}));
  throw problemOf({ ...problem, status: answer.status });
}

function problemOf(problem) {
  const passes = problem.status >= 500 || problem.status === 429;
  return passes ? new Error(problem.detail) : new Refused(problem);
}

// Yield the server-sent events of a stream as objects. silent: called after 40 s without a byte.
export async function* events(stream, silent = () => {}) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const timer = setTimeout(silent, SILENCE_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) yield parsed(block);
  }
}

function parsed(block) {
  const found = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) found[line.slice(0, at)] = line.slice(at + 2);
  }
  return found;
}
