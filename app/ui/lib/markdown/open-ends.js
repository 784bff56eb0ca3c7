// What is open at the end of a text that still grows: emphasis, code and links are closed for now, so that
// the reader sees their form and no markup. Pure.

import { PAIR_OF_TILDES, SINGLE_TILDE } from "./strikethrough.js";

/** Of emphasis and of strikethrough. */
const MARKERS = new Set(["*".charCodeAt(0), "_".charCodeAt(0), SINGLE_TILDE, PAIR_OF_TILDES]);

export function openEnds(md) {
  md.core.ruler.at("inline", parseInline);
  md.inline.ruler.before("backticks", "open_code", openCode);
  md.inline.ruler.before("link", "open_link", openLink);
  md.inline.ruler2.after("balance_pairs", "open_emphasis", closeEmphasis);
}

function parseInline({ tokens, md, env, src }) {
  env.isInline = true;
  const last = env.isGrowing && !/\n[ \t]*\n$/.test(src) ? openToken(tokens) : null;
  for (const token of tokens) {
    if (token.type !== "inline") continue;
    env.hasOpenEnd = token === last;
    md.inline.parse(token.content, md, env, token.children);
  }
  env.hasOpenEnd = false;
}

/** The text at the end of the last block. */
function openToken(tokens) {
  for (let at = tokens.length - 1; at >= 0; at -= 1) {
    if (tokens[at].type === "inline") return tokens[at];
    if (tokens[at].nesting !== -1) return null;
  }
  return null;
}

function openCode(state, silent) {
  const { src, pos, posMax, env } = state;
  if (silent || !env.hasOpenEnd || src[pos] !== "`") return false;
  const [marker] = /^`+/.exec(src.slice(pos, posMax));
  const rest = src.slice(pos + marker.length, posMax);
  for (const { 0: run } of rest.matchAll(/`+/g)) if (run === marker) return false;
  if (rest.trim()) state.push("code_inline", "code", 0).content = rest.replace(/`+$/, "").replace(/\n/g, " ");
  state.pos = posMax;
  return true;
}

/** `[text](https://…` without its end. */
function openLink(state, silent) {
  const { src, pos, posMax, env } = state;
  if (silent || !env.hasOpenEnd || src[pos] !== "[") return false;
  const match = /^\[([^[\]\n]*)\](?:\([^()\s<>]*)?$/.exec(src.slice(pos, Math.min(posMax, pos + 2000)));
  if (!match || !match[0].includes("](") || pos + match[0].length !== posMax) return false;
  state.pending = state.pending.replace(/!$/, "");
  state.push("link_open", "a", 1);
  state.push("text", "", 0).content = match[1];
  state.push("link_close", "a", -1);
  state.pos = posMax;
  return true;
}

/** Only openers that cannot close: "5*3" is no emphasis until its end comes. */
function closeEmphasis(state) {
  if (!state.env.hasOpenEnd) return;
  const { delimiters } = state;
  const isCrossed = crossed(delimiters);
  for (let at = delimiters.length - 1; at >= 0; at -= 1) {
    const { marker, token, end, open, close } = delimiters[at];
    const isOpen = open && !close && end === -1 && !isCrossed[at];
    if (!isOpen || !MARKERS.has(marker)) continue;
    state.push("text", "", 0).content = state.tokens[token].content;
    delimiters[at].end = delimiters.length;
    delimiters.push({ marker, length: 0, token: state.tokens.length - 1, end: -1, open: false, close: true });
  }
}

/** Whether each delimiter is within a pair, so that it cannot reach the end of the text. */
function crossed(delimiters) {
  let reach = -1;
  return delimiters.map(({ end }, at) => {
    const isWithin = at <= reach;
    reach = Math.max(reach, end);
    return isWithin;
  });
}
