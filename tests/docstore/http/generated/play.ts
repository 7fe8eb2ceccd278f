// What a user of openapi-typescript and openapi-fetch writes; `node play.js URL...`.

import createClient from "openapi-fetch";
import type { paths } from "./store.js";

const [first, second, third] = process.argv.slice(2).map((baseUrl) => createClient<paths>({ baseUrl }));

const LINES = `{"op": "PUT", "link": "/films/b3", "body": {"title": "Mirror"}}
{"op": "POST", "link": "/films/b4", "body": {"year": 1979}}
`;
const asTheyAre = (body: unknown) => body as string;
const path = { id: "typescript" };

const made = await first.PUT("/films/{id}", {
  params: { path, header: { "Idempotency-Key": "another key" } },
  body: { title: "Solaris", year: 1971 },
});
const tag = made.response.headers.get("ETag") ?? "";
const patched = await second.PATCH("/films/{id}", {
  params: { path, header: { "If-Match": tag } },
  body: { year: 1972 },
  headers: { "Content-Type": "application/merge-patch+json" },
});
const stale = await third.PATCH("/films/{id}", {
  params: { path, header: { "If-Match": tag } },
  body: { year: 0 },
  headers: { "Content-Type": "application/merge-patch+json" },
});
const stepped = await first.PATCH("/films/{id}", {
  params: { path },
  body: [{ op: "add", path: "/rating", value: 8 }],
  headers: { "Content-Type": "application/json-patch+json" },
});
const done = await third.POST("/core/bulk", {
  body: LINES,
  bodySerializer: asTheyAre,
  headers: { "Content-Type": "application/x-ndjson" },
  parseAs: "text",
});
const topic = { topic: "flights" };
const record = { key: "LH100", value: { delay: 12 } };
const one = await first.POST("/core/streams/{topic}/records", { params: { path: topic }, body: record });
const two = await second.POST("/core/streams/{topic}/records", {
  params: { path: topic },
  body: { records: [record, record] },
});
const found = await third.GET("/films/{id}", { params: { path } });

console.log(JSON.stringify({
  statuses: [made, patched, stale, stepped, one, two].map((each) => each.response.status),
  outcome: stale.error?.outcome,
  counts: [one.data?.count, two.data?.count],
  film: found.data,
  lines: (done.data as unknown as string).trim().split("\n").map((line) => JSON.parse(line)),
}));
