// Server-sent events over fetch: an EventSource can show no token.
// As an EventSource does, it goes on from the last id when a connection ends.

import { events } from "/core/ui/feed.js";
import { askForToken, Refused, send } from "/core/ui/node.js";

const AGAIN_MS = 1_000;

// Call heard({event, data}) for each event, and told(state) whenever the connection comes or goes,
// until the signal ends it. Throws Refused for what will be refused again.
export async function follow(path, signal, heard, told) {
  let last = "";
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const answer = await send("GET", path, { headers, signal });
      if (answer.status === 401 && (await askForToken())) continue;
      if (!answer.ok) {
        const problem = await answer.json().catch(() => ({}));
        if (answer.status < 500) throw new Refused(answer.status, problem, answer.headers);
        throw new Error(problem.detail);
      }
      told("connected");
      last = await read(answer.body, last, heard);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused) throw error;
    }
    told("connecting again");
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

// Read events until the stream ends or breaks; return the last id.
async function read(stream, last, heard) {
  try {
    for await (const event of events(stream)) {
      if (event.id) last = event.id;
      if (event.event) heard(event);
    }
  } catch {
    // The events until now have been heard.
  }
  return last;
}
