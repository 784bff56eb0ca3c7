// LaTeX: `\( \)`, `\[ \]`, `$$ $$`, and `$ $` by pandoc's rule: no space inside the dollars, and no digit after
// the second. Pure.

const DISPLAY = { "$$": "$$", "\\[": "\\]" };
const BACKSLASH = "\\".charCodeAt(0);
const DOLLAR = "$".charCodeAt(0);

export function formulas(md) {
  md.inline.ruler.before("escape", "formula", inline);
  md.block.ruler.before("fence", "formula", block, { alt: ["paragraph", "reference", "blockquote", "list"] });
}

function inline(state, silent) {
  const { src, pos, posMax } = state;
  const code = src.charCodeAt(pos);
  if (code !== BACKSLASH && code !== DOLLAR) return false;
  const two = src.slice(pos, pos + 2);
  const open = two === "\\(" || DISPLAY[two] ? two : code === DOLLAR ? "$" : null;
  if (!open) return false;
  const end = closing(state, open, pos + open.length);
  if (end === -1 || end >= posMax) return false;
  const tex = src.slice(pos + open.length, end);
  if (!isFormula(tex)) return false;
  if (!silent) {
    const token = state.push("formula", "math", 0);
    token.content = tex.trim();
    token.meta = { isDisplay: open in DISPLAY };
  }
  state.pos = end + (DISPLAY[open] ?? open).length;
  return true;
}

/** A formula has a letter or a digit: escaped brackets alone are text. */
const isFormula = (tex) => /[\p{L}\p{N}]/u.test(tex);

/** Where the formula ends, or -1. Remembers what does not close, so that a text is searched once. */
function closing(state, open, from) {
  state.unclosed ??= new Set();
  if (state.unclosed.has(open)) return -1;
  const { src, posMax } = state;
  if (open === "$" && /[\s$]/.test(src[from] ?? " ")) return -1;
  const close = open === "\\(" ? "\\)" : (DISPLAY[open] ?? open);
  for (let at = src.indexOf(close, from); at !== -1 && at < posMax; at = src.indexOf(close, at + 1)) {
    if (open === "$" ? isClosingDollar(src, at) : !isEscaped(src, at)) return at;
  }
  state.unclosed.add(open);
  return -1;
}

const isClosingDollar = (src, at) =>
  !/\s/.test(src[at - 1]) && !/[\d$]/.test(src[at + 1] ?? "") && !isEscaped(src, at);

function isEscaped(src, at) {
  let begin = at;
  while (src.charCodeAt(begin - 1) === BACKSLASH) begin -= 1;
  return (at - begin) % 2 === 1;
}

/** A formula on lines of its own. It has no empty line; while the text grows, its end may be missing. */
function block(state, startLine, endLine, silent) {
  if (state.sCount[startLine] - state.blkIndent >= 4) return false;
  const begin = state.bMarks[startLine] + state.tShift[startLine];
  const open = state.src.slice(begin, begin + 2);
  const close = DISPLAY[open];
  if (!close) return false;
  for (let line = startLine; line < endLine && !state.isEmpty(line); line += 1) {
    if (line > startLine && state.sCount[line] < state.blkIndent) return false;
    const from = line === startLine ? begin + 2 : state.bMarks[line] + state.tShift[line];
    const at = state.src.indexOf(close, from);
    if (at === -1 || at >= state.eMarks[line]) continue;
    if (state.src.slice(at + 2, state.eMarks[line]).trim()) return false;
    return push(state, startLine, line + 1, state.src.slice(begin + 2, at), silent);
  }
  const isCut = state.env.isGrowing && lastLine(state, startLine, endLine) === state.lineMax;
  return isCut && push(state, startLine, state.lineMax, null, silent);
}

function lastLine(state, line, endLine) {
  while (line < endLine && !state.isEmpty(line)) line += 1;
  return line;
}

function push(state, startLine, nextLine, tex, silent) {
  if (tex !== null && !isFormula(tex)) return false;
  if (silent) return true;
  const token = state.push("formula", "math", 0);
  token.map = [startLine, nextLine];
  token.block = true;
  token.meta = { isDisplay: true, isCut: tex === null };
  token.content = tex?.trim() ?? state.getLines(startLine, nextLine, state.blkIndent, false);
  state.line = nextLine;
  return true;
}
