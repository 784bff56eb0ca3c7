// GitHub's strikethrough: one tilde or two on each side, and no more. Pure.

/** Markers of delimiters. They differ, so that a single tilde never closes a pair. */
export const SINGLE_TILDE = "~".charCodeAt(0);
export const PAIR_OF_TILDES = 0x1_0000;

export function strikethrough(md) {
  md.inline.ruler.at("strikethrough", read);
  md.inline.ruler2.at("strikethrough", (state) => {
    join(state, state.delimiters);
    for (const meta of state.tokens_meta) if (meta?.delimiters) join(state, meta.delimiters);
  });
}

function read(state, silent) {
  if (silent || state.src.charCodeAt(state.pos) !== SINGLE_TILDE) return false;
  const { length, can_open: open, can_close: close } = state.scanDelims(state.pos, true);
  const token = state.push("text", "", 0);
  token.content = "~".repeat(length);
  if (length <= 2) {
    const marker = length === 2 ? PAIR_OF_TILDES : SINGLE_TILDE;
    state.delimiters.push({ marker, length: 0, token: state.tokens.length - 1, end: -1, open, close });
  }
  state.pos += length;
  return true;
}

function join(state, delimiters) {
  for (const { marker, token, end } of delimiters) {
    if ((marker !== SINGLE_TILDE && marker !== PAIR_OF_TILDES) || end === -1) continue;
    turn(state.tokens[token], "s_open", 1);
    turn(state.tokens[delimiters[end].token], "s_close", -1);
  }
}

function turn(token, type, nesting) {
  Object.assign(token, { type, tag: "del", nesting, markup: token.content, content: "" });
}
