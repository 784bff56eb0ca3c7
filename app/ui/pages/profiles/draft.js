// A profile as it is edited here: pure but for the drafts that outlive the page's being shown.
//
// - A segment has an `id` of its own, so that it stays itself while it moves.
// - `was`: what its file held when it was read. A file that nobody touched is not sent.

export const LAYERS = ["axioms", "identity", "rules", "capabilities", "context", "memories", "affect"];

let last = 0;
const drafts = new Map();

/** The draft of that name that somebody began and did not save. */
export const draftOf = (name) => drafts.get(name);
export const keep = (name, draft) => drafts.set(name, draft);
export const forget = (name) => drafts.delete(name);

export const isNamed = (name) => /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$/.test(name);

/** Whether a key is the one that a segment has by its place or its file. */
export const isDefault = (key) => !key || /^(file:|segment \d+$)/.test(key);

/** A new profile, with one segment to begin with. */
export function begin(name) {
  keep(name, { name, revision: null, ttl: "extended", segments: [newSegment("text", "identity")] });
}

export function read(profile) {
  const segments = profile.segments.map((segment) => ({ ...pick(segment), id: ++last, was: segment.content, editable: segment.editable }));
  return { name: profile.name, revision: profile.revision, ttl: profile.ttl, segments };
}

export function newSegment(source, layer) {
  const content = source === "tools" ? '[\n  {"type": "function", "function": {"name": "", "description": "", "parameters": {"type": "object", "properties": {}}}}\n]' : "";
  return { id: ++last, layer, key: null, stable: true, source, path: source === "file" ? "" : null, content, was: null, editable: true };
}

export function sent({ name, revision, ttl, segments }) {
  const segment = (it) => ({ ...pick(it), content: it.source !== "text" && it.content === it.was ? null : it.content ?? "" });
  return { name, revision, ttl, segments: segments.map(segment) };
}

/** Whether a draft says something else than what was read. */
export const differs = (draft, profile) => !profile || JSON.stringify(sent(draft)) !== JSON.stringify(sent(read(profile)));

const pick = ({ layer, key, stable, source, path, content }) => ({ layer, key, stable, source, path, content });

export function moved(segments, from, to) {
  const all = [...segments];
  const [one] = all.splice(from, 1);
  all.splice(Math.max(0, Math.min(all.length, to)), 0, one);
  return all;
}

/** Behind which place everything may change: the first segment that does not stay. */
export function tailBegins(segments) {
  const at = segments.findIndex(({ stable, source }) => !stable && source !== "tools");
  return at < 0 ? segments.length : at;
}

/** The segments with one behind everything that stays, as one that does not. */
export function behind(segments, at) {
  const changing = segments.map((segment, index) => (index === at ? { ...segment, stable: false } : segment));
  const rest = changing.filter((_, index) => index !== at);
  return moved(changing, at, tailBegins(rest));
}

/** Why a text is no list of tools; null when it is one, with their names. */
export function toolsIn(text) {
  try {
    const tools = JSON.parse(text);
    if (!Array.isArray(tools) || !tools.length) return { problem: "profile.tools.array" };
    const names = tools.map((tool) => tool?.function?.name);
    return names.every((name) => typeof name === "string" && name) ? { names } : { problem: "profile.tools.name" };
  } catch (error) {
    return { problem: "profile.tools.json", detail: error.message };
  }
}
