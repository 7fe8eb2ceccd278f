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

// The beginning of what an author wrote, in one line. text: a whole document.
export function excerpt(text) {
  let told = "";
  for (const [name, value] of membersOf(text)) {
    if (told.length > EXCERPT) break;
    if (OF_THE_STORE.has(JSON.parse(name))) continue;
    told += `${told ? ", " : ""}${name}: ${line(value)}`;
  }
  return line(`{${told}}`);
}

// The beginning of any JSON in one line.
export function line(text) {
  const spaced = { ",": ", ", ":": ": ", "{": "{ ", "}": " }" };
  let told = "";
  for (const [token] of text.matchAll(TOKEN)) {
    told += spaced[token] ?? spelled(token);
    if (told.length > EXCERPT) break;
  }
  return told.slice(0, EXCERPT).replaceAll("{  }", "{}");
}

// A token as people read it: an escape stands only where it must.
export function spelled(token) {
  return token.includes("\\u") ? JSON.stringify(JSON.parse(token)) : token;
}

// The tokens of a text, and of each object or array the places of its children:
// {tokens, children(at)}, in which a child is {name, at}.
export function spans(text) {
  const tokens = Array.from(text.matchAll(TOKEN), ([token]) => token);
  const ends = new Int32Array(tokens.length);
  const begun = [];
  tokens.forEach((token, at) => {
    if (isBegin(token)) begun.push(at);
    else if (isEnd(token)) ends[begun.pop()] = at;
  });
  const after = (at) => (isBegin(tokens[at]) ? ends[at] : at) + 1;
  const children = (at) => {
    const found = [];
    for (let next = at + 1; next < ends[at]; next = after(found.at(-1).at)) {
      if (tokens[next] === ",") next += 1;
      const isNamed = tokens[at] === "{";
      found.push({ name: isNamed ? tokens[next] : "", at: isNamed ? next + 2 : next });
    }
    return found;
  };
  return { tokens, children };
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
