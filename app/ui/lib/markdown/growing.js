// A text that grows, as blocks of tokens. Pure.
//
// - An update parses from the last unfinished block on, so its cost does not grow with the text. A finished block
//   is the same object in each update.
// - At the end the blocks are those of the whole text parsed at once.
// - A definition that comes after a link to it makes the whole text be parsed again, once.

import { parser } from "./parser.js";
import { settled } from "./settled.js";

/** A longer unfinished block is parsed again only when it has grown by a quarter. */
const MAX_TAIL_LETTERS = 20_000;
const CHUNK = 32;

/**
 * `update(text, isOver)` takes the whole text so far and returns `{ chunks, rest }`: its blocks, 32 in an array, which
 * stays the same once all are finished; and the end that is not parsed yet. A block is `{ tokens, source }`.
 */
export function createGrowingText() {
  let shown, start, chunks, tail, parsedTo, definitions, lookedUp;
  reset();

  function reset() {
    [shown, start, chunks, tail, parsedTo] = ["", 0, [], [], 0];
    definitions = new Map();
    lookedUp = new Map();
  }

  function update(text, isOver) {
    const clean = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (!clean.startsWith(shown)) reset();
    shown = clean;
    const isLong = clean.length - start > MAX_TAIL_LETTERS;
    const isDue = isOver || !isLong || clean.length - start > (parsedTo - start) * 1.25;
    if (isDue) parseTail(isOver);
    return { chunks: appended(chunks, tail), rest: isDue ? "" : shown.slice(parsedTo) };
  }

  function parseTail(isOver) {
    let parsed = parse(start, isOver);
    if (parsed.isLate) {
      const text = shown;
      reset();
      shown = text;
      parsed = parse(0, isOver);
    }
    for (const [label, value] of parsed.lookups) lookedUp.set(label, value);
    parsedTo = start + parsed.length;
    tail = parsed.blocks;
    if (!isOver) finish(parsed);
  }

  function parse(from, isOver) {
    const source = isOver ? shown.slice(from) : settled(shown.slice(from));
    const { tokens, found, lookups } = tokensOf(source, !isOver, definitions);
    const isLate = [...found].some(([label, value]) =>
      lookedUp.has(label) && !definitions.has(label) && lookedUp.get(label) !== JSON.stringify(value)
    );
    return { blocks: blocksOf(tokens, source), source, length: source.length, found, lookups, isLate };
  }

  /** Keeps the blocks before the last that began with a whole line: no further text changes them. */
  function finish({ blocks, source, found }) {
    // A formula without its end may yet be a part of the paragraph before it.
    const isCut = blocks.at(-1)?.tokens[0].meta?.isCut;
    const sure = isCut ? blocks.slice(0, -1) : blocks;
    const last = sure.findLastIndex(({ begin }) => source.includes("\n", begin));
    if (last <= 0) return;
    const { begin } = blocks[last];
    if (found.size) {
      for (const [label, value] of tokensOf(source.slice(0, begin), false, definitions).found) {
        if (!definitions.has(label)) definitions.set(label, value);
      }
    }
    chunks = appended(chunks, blocks.slice(0, last));
    tail = blocks.slice(last);
    start += begin;
  }

  return { update };
}

/** `found`: the definitions in `source`; `lookups`: the definitions that it asked for, as JSON. */
function tokensOf(source, isGrowing, definitions) {
  const found = new Map();
  const lookups = new Map();
  const env = { isGrowing, isInline: false };
  env.references = new Proxy({}, {
    get(_, label) {
      const value = definitions.get(label) ?? found.get(label);
      if (env.isInline) lookups.set(label, JSON.stringify(value));
      return value;
    },
    set: (_, label, value) => Boolean(found.set(label, value)),
  });
  return { tokens: parser.parse(source, env), found, lookups };
}

/** `begin` is where the block's first line begins in `source`. */
function blocksOf(tokens, source) {
  const begins = lineBegins(source);
  const blocks = [];
  let open = [];
  for (const token of tokens) {
    open.push(token);
    if (token.level > 0 || token.nesting === 1) continue;
    const [line, nextLine] = open[0].map;
    const begin = begins[line];
    const end = begins[nextLine] ?? source.length;
    blocks.push({ tokens: open, begin, source: source.slice(begin, end).replace(/\n+$/, "") });
    open = [];
  }
  return blocks;
}

function lineBegins(source) {
  const begins = [0];
  for (let at = source.indexOf("\n"); at !== -1; at = source.indexOf("\n", at + 1)) begins.push(at + 1);
  return begins;
}

function appended(chunks, blocks) {
  const last = chunks.at(-1);
  const isFull = !last || last.length >= CHUNK;
  const all = isFull ? blocks : [...last, ...blocks];
  const made = isFull ? [...chunks] : chunks.slice(0, -1);
  for (let at = 0; at < all.length; at += CHUNK) made.push(all.slice(at, at + CHUNK));
  return made;
}
