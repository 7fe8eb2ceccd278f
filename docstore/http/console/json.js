// JSON as text. A document is shown, changed and sent back without ever being a value of this
// language, in which 9007199254740993 and 1.0 would be other numbers.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
// Strings, and what begins, ends or parts values.
const MARK = /"(?:[^"\\]|\\.)*"|[{}[\],]/g;
const NAME = /^"(?:[^"\\]|\\.)*"/;
const EXCERPT = 160;
// A browser lays out a field of 10,000 lines in about a second.
const LINES_MAX = 5_000;

// Members that the store adds to what an author wrote; sent back, they are ignored.
const OF_THE_STORE = new Set([
  "documentSelfLink", "documentKind", "documentVersion", "documentEpoch", "documentOwner",
  "documentUpdateTimeMicros", "documentUpdateAction", "documentSignature",
  "documentAuthPrincipalLink",
]);

// The members that an author wrote. text: a whole document as a node answers it.
export function authors(text) {
  return written(membersOf(text).filter(isAuthors));
}

// An object of members, which are pairs of texts.
export function written(members) {
  return `{${members.map((pair) => pair.join(":")).join(",")}}`;
}

// The members of an object as pairs of texts, in their order.
export function membersOf(text) {
  return elementsOf(text).map((member) => {
    const [name] = NAME.exec(member);
    return [name, member.slice(member.indexOf(":", name.length) + 1).trimStart()];
  });
}

// The members of an object by their names, each of them still text.
export function objectOf(text) {
  return Object.fromEntries(membersOf(text).map(([name, value]) => [JSON.parse(name), value]));
}

// The elements of an array, or the members of an object, as texts.
export function elementsOf(text) {
  const found = [];
  let depth = 0;
  let from = 0;
  for (const { 0: mark, index } of text.matchAll(MARK)) {
    if (isEnd(mark)) depth -= 1;
    if (depth === 0 && isBegin(mark)) from = index + 1;
    else if ((depth === 1 && mark === ",") || (depth === 0 && isEnd(mark))) {
      found.push(text.slice(from, index).trim());
      from = index + 1;
    }
    if (isBegin(mark)) depth += 1;
  }
  return found.length === 1 && found[0] === "" ? [] : found;
}

// The beginning of what an author wrote, in one line. members: of a whole document.
export function excerpt(members) {
  let told = "";
  for (const [name, value] of members.filter(isAuthors)) {
    if (told.length > EXCERPT) break;
    told += `${told ? ", " : ""}${name}: ${line(value)}`;
  }
  return line(`{${told}}`);
}

const isAuthors = ([name]) => !OF_THE_STORE.has(JSON.parse(name));

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

// A token as people read it: only what JSON must escape is escaped.
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

// The same JSON without blanks.
export function compact(text) {
  return Array.from(text.matchAll(TOKEN), ([token]) => token).join("");
}

// The same JSON, two blanks a level. Levels that would make too many lines stay in one line.
export function indented(text) {
  const lines = [];
  for (const { level } of breaksOf(text)) lines[level] = (lines[level] ?? 0) + 1;
  let deepest = 0;
  for (let sum = lines[1]; sum <= LINES_MAX; sum += lines[deepest + 1]) deepest += 1;
  let told = "";
  for (const { token, level, depth } of breaksOf(text)) {
    if (level > 0 && level <= deepest) told += `\n${"  ".repeat(depth)}`;
    told += token === ":" ? ": " : token;
  }
  return told;
}

// The tokens of a text. level: of the values that a line break before the token sets apart, 0 where
// there is none. depth: of the token itself.
function* breaksOf(text) {
  let depth = 0;
  let before = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (isEnd(token)) depth -= 1;
    const begins = isEnd(token) ? !isBegin(before) : isBegin(before) || before === ",";
    yield { token, depth, level: begins ? depth + isEnd(token) : 0 };
    if (isBegin(token)) depth += 1;
    before = token;
  }
}

const isBegin = (token) => token === "{" || token === "[";
const isEnd = (token) => token === "}" || token === "]";
