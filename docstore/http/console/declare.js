// Forms that declare a factory and create a topic.

import { fill, h } from "/core/ui/dom.js";
import { form, jsonIn, wholeIn } from "/core/ui/form.js";
import { ask, encoded } from "/core/ui/node.js";
import { FACTORIES, STREAMS, toList, toStream } from "/core/ui/places.js";

const DAY_MS = 86_400_000;
const WAIT_S = 10;
const BOTH = ["PERSISTENCE", "REPLICATION"];
const LEVELS = [
  ["3", "3: reads and writes need a majority", [...BOTH, "OWNER_SELECTION", "ENFORCE_QUORUM"]],
  ["2", "2: one owner, no majority", [...BOTH, "OWNER_SELECTION"]],
  ["1", "1: any node writes", BOTH],
];
const CHECKS = [
  ["strict", "STRICT_UPDATE_CHECKING", "Updates must name the version that they are based on"],
  ["immutable", "IMMUTABLE", "Documents cannot be changed, only created and deleted"],
  ["replaces", "IDEMPOTENT_POST", "POST of an existing document replaces it"],
];
const FACTORY = [
  {
    name: "path", title: "Path", class: "code", placeholder: "/notes", required: true,
    about: ["already-exists"],
  },
  {
    name: "level", title: "Level", kind: "choice", choices: LEVELS, value: "3",
    about: ["options"],
  },
  {
    name: "versions", title: "Versions to keep", type: "number", min: 1, about: ["retention"],
    hint: "Of each document. Empty: all versions, for as long as the nodes keep history.",
  },
  {
    name: "expires", title: "Expire after (seconds)", type: "number", min: 1,
    about: ["defaultExpirationSeconds"], hint: "Empty: documents stay.",
  },
  { name: "schema", title: "JSON Schema", kind: "area", rows: 4, hint: "Empty: any JSON object." },
  {
    name: "indexes", title: "Indexes", kind: "area", rows: 2,
    hint: "One a line, such as: year desc, title. Empty: none.",
  },
  ...CHECKS.map(([name, option, title]) => ({ name, title, kind: "check", about: [option] })),
];
const TOPIC = [
  {
    name: "name", title: "Name", class: "code", placeholder: "orders", required: true,
    about: ["already-exists"],
  },
  { name: "partitions", title: "Partitions", type: "number", min: 1, value: "1" },
  {
    name: "replicationFactor", title: "Replicas", type: "number", min: 1,
    hint: "Empty: three, or as many as there are members.",
  },
  {
    name: "minInSync", title: "Needed in sync", type: "number", min: 1,
    hint: "Empty: a majority.",
  },
  {
    name: "days", title: "Keep for (days)", type: "number", min: 1, value: "7",
    about: ["retention", "ms"],
  },
];

export async function newFactory(place, route, signal) {
  const send = async (said, release) => {
    const [, , options] = LEVELS.find(([level]) => level === said.level);
    const chosen = CHECKS.filter(([name]) => said[name]).map(([, option]) => option);
    const versions = wholeIn("versions", said.versions);
    const members = {
      path: said.path.trim(),
      options: [...options, ...chosen],
      retention: versions && { versions },
      defaultExpirationSeconds: wholeIn("expires", said.expires),
      indexes: said.indexes.split("\n").map((each) => each.trim()).filter(Boolean),
    };
    const schema = jsonIn("schema", said.schema);
    const body = JSON.stringify(members);
    await ask("POST", "/core/factories", {
      body: schema ? `${body.slice(0, -1)},"schema":${schema}}` : body,
    });
    release();
    location.hash = toList(members.path);
  };
  const cancel = () => { location.hash = FACTORIES; };
  fill(place, h("h1", {}, "Declare a factory"),
    form({ fields: FACTORY, title: "Declare", send, cancel, signal }));
}

export async function newTopic(place, route, signal) {
  const send = async (said, release) => {
    const days = wholeIn("days", said.days);
    const body = JSON.stringify({
      name: said.name.trim(),
      partitions: wholeIn("partitions", said.partitions),
      replicationFactor: wholeIn("replicationFactor", said.replicationFactor),
      minInSync: wholeIn("minInSync", said.minInSync),
      retention: days && { ms: days * DAY_MS },
    });
    const headers = { Prefer: `wait=${WAIT_S}` };
    await ask("POST", "/core/streams", { body, headers });
    release();
    location.hash = toStream(`/${said.name.trim()}`);
  };
  const cancel = () => { location.hash = STREAMS; };
  fill(place, h("h1", {}, "Create a topic"),
    form({ fields: TOPIC, title: "Create", send, cancel, signal }));
}

// A form that appends one record. link: of the topic. after(): called once it is committed.
export function newRecord(link, count, after, signal) {
  const fields = [
    { name: "key", title: "Key", class: "code", hint: "Empty: none." },
    {
      name: "partition", title: "Partition", type: "number", min: 0, max: count - 1,
      hint: "Empty: chosen by the key.",
    },
    { name: "value", title: "Value", kind: "area", hint: "JSON.", value: "{}", rows: 4 },
  ];
  const send = async (said, release) => {
    const partition = wholeIn("partition", said.partition);
    const value = jsonIn("value", said.value) || "null";
    const others = JSON.stringify({ key: said.key || undefined, partition });
    const body = `{"value":${value}${others === "{}" ? "" : `,${others.slice(1, -1)}`}}`;
    const { text } = await ask("POST", `${encoded(link)}/records`, { body });
    release();
    after(JSON.parse(text));
  };
  return form({ fields, title: "Append", send, signal });
}
