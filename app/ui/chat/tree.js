// The messages of a conversation as a tree: an edit or another answer is a sibling, and nothing is
// overwritten. Pure.

import { reusedOf } from "./figures.js";

/**
 * `messages` as they were read again, with the objects of `before` for those that have not changed: what draws these
 * does not draw again.
 */
export function withKept(before, messages) {
  const known = new Map(before.map((message) => [message.id, message]));
  return messages.map((message) => {
    const old = known.get(message.id);
    // Both were JSON.
    return JSON.stringify(old) === JSON.stringify(message) ? old : message;
  });
}

/** From the first message to `head`. */
export function pathTo(messages, head) {
  const byId = new Map(messages.map((message) => [message.id, message]));
  const path = [];
  for (let next = byId.get(head); next; next = byId.get(next.parent)) path.push(next);
  return path.reverse();
}

const isInstruction = ({ role }) => role === "system" || role === "developer";

/** How many instructions a path begins with. */
export function countInstructions(path) {
  const first = path.findIndex((message) => !isInstruction(message));
  return first < 0 ? path.length : first;
}

/** The first message that the model reads, if older ones are left out. */
export function newestStart(path) {
  const start = path.findLastIndex((message) => message.starts_prompt);
  return start > countInstructions(path) ? path[start] : null;
}

export const NO_SIBLINGS = [];

/**
 * Of each message of a path, by its id: its `siblings`, the messages with the same parent in the order they were made,
 * itself among them, or none where it is the only one; and the tokens that its branch `reused`. Siblings that are those
 * of `before` stay the same array, so that what draws the message does not draw again.
 */
export function variantsById(messages, path, before) {
  const children = Map.groupBy(messages, ({ parent }) => parent);
  const variantsOf = (message) => {
    const siblings = kept(before?.get(message.id)?.siblings, children.get(message.parent));
    if (siblings.length < 2) return { siblings: NO_SIBLINGS };
    const answer = message.role === "assistant" ? message : children.get(message.id)?.[0];
    return { siblings, reused: reusedTokens(answer) };
  };
  return new Map(path.map((message) => [message.id, variantsOf(message)]));
}

const kept = (old, list) =>
  old?.length === list.length && list.every((message, index) => message === old[index]) ? old : list;

/** How many messages follow a message, on all branches. */
export function countBelow(messages, message) {
  const ids = new Set([message.id]);
  // A parent is older than its children.
  for (const { id, parent } of messages) if (ids.has(parent)) ids.add(id);
  return ids.size - 1;
}

/** Whether its KV always stays in the cells of the chat. */
export const isPinned = ({ hob }) => hob?.pin === true;

/** Content is a string or a list of parts. */
export function textOf({ content }) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? "").join("");
}

/** The reused tokens of an answer's prompt; null when it does not say. */
export function reusedTokens(message) {
  const tokens = message?.finish?.hob?.tokens;
  return tokens ? reusedOf(tokens) : null;
}

/** How many tokens of each message, by its id, had no cells when the last answer ended. */
export function awayOf(path) {
  const answer = path.findLastIndex(({ finish }) => finish?.hob?.cells);
  const away = new Map();
  for (const part of path[answer]?.finish.hob.cells.away ?? []) {
    const behind = part.key === null ? -1 : part.messages_behind ?? NaN;
    const message = path[answer - 1 - behind];
    if (message) away.set(message.id, (away.get(message.id) ?? 0) + part.tokens);
  }
  return away;
}
