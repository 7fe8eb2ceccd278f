// JSON as text. A document is shown, changed and sent back without ever being a value of this
// language, in which 9007199254740993 and 1.0 would be other numbers.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const EXCERPT = 160;

// Members that the store adds to what an author wrote; sent back, they are ignored.
const OF_THE_STORE = new Set([
  "documentSelfLink", "documentKind", "documentVersion", "documentEpoch", "documentOwner",
  "documentUpdateTimeMicros", "documentUpdateAction", "documentSignature",
  "documentAuthPrincipalLink",
]);

// What an author wrote, indented. text: a whole document as a node answers it.
export function authors(text) {
  const kept = membersOf(text).filter(([name]) => !OF_THE_STORE.has(JSON.parse(name)));
  return indented(`{${kept.map(([name, value]) => `${name}:${value}`).join(",")}}`);
}

// The members of an object as pairs of texts, in their order.
export function membersOf(text) {
  return parts(text).map((tokens) => [tokens[0], tokens.slice(2).join("")]);
}

// The members of an object by their names, each of them still text.
export function objectOf(text) {
  return Object.fromEntries(membersOf(text).map(([name, value]) => [JSON.parse(name), value]));
}

// The elements of an array as texts.
export function elementsOf(text) {
  return parts(text).map((tokens) => tokens.join(""));
}

// What stands between the commas of the outermost object or array, as tokens.
function parts(text) {
  const found = [];
  let depth = 0;
  let part = [];
  for (const [token] of text.matchAll(TOKEN)) {
    if (isEnd(token)) depth -= 1;
    if (depth === 1 && token === ",") {
      found.push(part);
      part = [];
    } else if (depth >= 1) {
      part.push(token);
    }
    if (isBegin(token)) depth += 1;
  }
  if (part.length > 0) found.push(part);
  return found;
}

// The beginning of it in one line.
export function excerpt(text) {
  return indented(text).replace(/\s*\n\s*/g, " ").slice(0, EXCERPT);
}

// The same JSON, two blanks a level.
export function indented(text) {
  let told = "";
  let depth = 0;
  let before = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (isEnd(token)) depth -= 1;
    const beginsLine = isEnd(token) ? !isBegin(before) : isBegin(before) || before === ",";
    if (beginsLine) told += `\n${"  ".repeat(depth)}`;
    told += token === ":" ? ": " : token;
    if (isBegin(token)) depth += 1;
    before = token;
  }
  return told;
}

const isBegin = (token) => token === "{" || token === "[";
const isEnd = (token) => token === "}" || token === "]";
