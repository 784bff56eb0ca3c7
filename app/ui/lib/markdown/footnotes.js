// Footnotes: `[^name]` where `[^name]: text` defines it. A note is shown where it is defined. Pure.

const MARK = /^\[\^([^\s\]]{1,40})\]/;
const DEFINITION = /^\[\^([^\s\]]{1,40})\]:/;
const INDENT = 4;
/** No label of a link begins with it. */
const key = (name) => `\n${name}`;

export function footnotes(md) {
  md.block.ruler.before("reference", "footnote", define, { alt: ["paragraph", "reference"] });
  md.inline.ruler.before("link", "footnote", refer);
}

function define(state, startLine, endLine, silent) {
  if (state.sCount[startLine] - state.blkIndent >= INDENT) return false;
  const begin = state.bMarks[startLine] + state.tShift[startLine];
  const match = DEFINITION.exec(state.src.slice(begin, Math.min(begin + 50, state.eMarks[startLine])));
  if (!match) return false;
  if (silent) return true;
  state.env.references ??= {};
  state.env.references[key(match[1])] ??= { name: match[1] };
  const open = state.push("footnote_open", "div", 1);
  open.meta = { name: match[1] };
  open.map = [startLine, startLine];
  readBody(state, begin + match[0].length, startLine, endLine);
  open.map[1] = state.line;
  state.push("footnote_close", "div", -1);
  return true;
}

/** The rest of the first line, and the lines that are indented below it. */
function readBody(state, after, line, endLine) {
  const { bMarks, tShift, sCount } = state;
  const before = [bMarks[line], tShift[line], sCount[line], state.parentType];
  let begin = after;
  while (begin < state.eMarks[line] && /[ \t]/.test(state.src[begin])) begin += 1;
  state.blkIndent += INDENT;
  [bMarks[line], tShift[line], sCount[line]] = [after, begin - after, state.blkIndent];
  state.parentType = "footnote";
  state.md.block.tokenize(state, line, endLine);
  state.blkIndent -= INDENT;
  [bMarks[line], tShift[line], sCount[line], state.parentType] = before;
}

function refer(state, silent) {
  if (state.src.charCodeAt(state.pos) !== 0x5b || state.src.charCodeAt(state.pos + 1) !== 0x5e) return false;
  const match = MARK.exec(state.src.slice(state.pos, state.pos + 50));
  if (!match || !state.env.references?.[key(match[1])]) return false;
  if (!silent) state.push("footnote_mark", "sup", 0).content = match[1];
  state.pos += match[0].length;
  return true;
}
