// A profile as the page edits it. Pure.
//
// - A segment has an `id`, so that it stays the same card while it moves.
// - `was`: the content of a segment's file when it was read. An unchanged file is not sent.

import { ttlClass } from "/lib/ttl.js";

export const LAYERS = [
  "axioms",
  "identity",
  "rules",
  "capabilities",
  "context",
  "memories",
  "affect",
];

const TOOLS_TEMPLATE = `[
  {"type": "function", "function": {"name": "", "description": "", "parameters": {"type": "object", "properties": {}}}}
]`;

let lastId = 0;

const MAX_NAME_LETTERS = 64;
const UMLAUTS = { ä: "ae", ö: "oe", ü: "ue", Ä: "Ae", Ö: "Oe", Ü: "Ue", ß: "ss" };

/** The file's name of instructions that a person calls so; empty where no letter is left. */
export function slugOf(name) {
  const plain = name.normalize("NFC").replace(/[äöüÄÖÜß]/g, (letter) => UMLAUTS[letter]);
  const letters = plain.normalize("NFKD").replace(/\p{M}/gu, "");
  const slug = letters.replace(/[^A-Za-z0-9_.]+/g, "-").replace(/^[-.]+/, "");
  return slug.slice(0, MAX_NAME_LETTERS).replace(/[-.]+$/, "");
}

/** Whether a key is the one that a segment has by its position or its file. */
export const isDefaultKey = (key) => !key || /^(file:|segment \d+$)/.test(key);

export const newDraft = (name) => ({
  name,
  // never saved
  revision: null,
  ttl: "extended",
  segments: [newSegment("text", "identity")],
});

export function draftOf({ name, revision, ttl, segments }) {
  const segmentOf = (segment) => ({
    ...savedFields(segment),
    id: ++lastId,
    was: segment.content,
    editable: segment.editable,
  });
  return { name, revision, ttl: ttlClass(ttl), segments: segments.map(segmentOf) };
}

/** A draft as the browser has stored it, with ids that no other card has; null where it has none. */
export function restoredDraft(text) {
  if (!text) return null;
  const { segments, ...draft } = JSON.parse(text);
  return { ...draft, segments: segments.map((segment) => ({ ...segment, id: ++lastId })) };
}

export function newSegment(source, layer) {
  return {
    id: ++lastId,
    layer,
    key: null,
    stable: true,
    source,
    path: source === "file" ? "" : null,
    content: source === "tools" ? TOOLS_TEMPLATE : "",
    was: null,
    editable: true,
  };
}

/** The draft as the daemon takes it; the content of an unchanged file is null. */
export function requestOf({ name, revision, ttl, segments }) {
  const contentOf = ({ source, content, was }) =>
    source !== "text" && content === was ? null : content ?? "";
  const segmentOf = (segment) => ({ ...savedFields(segment), content: contentOf(segment) });
  return { name, revision, ttl, segments: segments.map(segmentOf) };
}

const savedFields = ({ layer, key, stable, source, path, content }) => ({
  layer,
  key,
  stable,
  source,
  path,
  content,
});

export function differs(draft, profile) {
  if (!profile) return true;
  return JSON.stringify(requestOf(draft)) !== JSON.stringify(requestOf(draftOf(profile)));
}

export function moved(segments, from, to) {
  const all = [...segments];
  const [segment] = all.splice(from, 1);
  all.splice(Math.max(0, Math.min(all.length, to)), 0, segment);
  return all;
}

/** The index of the first segment that may change: only what stands before it is in the prefix. */
export function tailStart(segments) {
  const index = segments.findIndex(({ stable, source }) => !stable && source !== "tools");
  return index < 0 ? segments.length : index;
}

/** Marks a segment as changing and moves it behind the stable ones. */
export function movedToTail(segments, at) {
  const others = segments.filter((_, index) => index !== at);
  const marked = segments.map((segment, index) =>
    index === at ? { ...segment, stable: false } : segment,
  );
  return moved(marked, at, tailStart(others));
}

/** Adds a segment behind the stable ones; context goes to the very end. */
export function withNew(segments, source, layer) {
  const isLast = source === "text" && layer === "context";
  const to = isLast ? segments.length : tailStart(segments);
  return moved([...segments, newSegment(source, layer)], segments.length, to);
}

/** The names of the tools in a JSON text, or what is wrong with it. */
export function toolsIn(text) {
  let tools;
  try {
    tools = JSON.parse(text);
  } catch (error) {
    return { problem: "profile.tools.json", detail: error.message };
  }
  if (!Array.isArray(tools) || !tools.length) return { problem: "profile.tools.array" };
  const names = tools.map((tool) => tool?.function?.name);
  const areNamed = names.every((name) => typeof name === "string" && name);
  return areNamed ? { names } : { problem: "profile.tools.name" };
}

/** `[text, isMarked]` pieces. `marks` count from the first character that is not white space. */
export function markedParts(text, marks) {
  const indent = text.length - text.trimStart().length;
  const parts = [];
  let at = 0;
  for (const { start, end } of marks) {
    parts.push([text.slice(at, indent + start), false]);
    parts.push([text.slice(indent + start, indent + end), true]);
    at = indent + end;
  }
  parts.push([text.slice(at), false]);
  return parts;
}
