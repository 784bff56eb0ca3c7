// What stands behind the stored messages until it is stored itself: messages that were sent, and the answer that
// streams in. Pure.
//
// - Each has a key, under which its stored message is drawn, too: the same elements show it, so that what is selected,
//   folded or wrapped there stays so.

import { countInstructions, NO_SIBLINGS, pathTo } from "./tree.js";

/** In place of a message: the answer so far is in its store. */
const GROWING = { role: "assistant" };

const keysOf = (pending, live) => [
  ...pending.map((_, index) => `sent-${live.began}-${index}`),
  `live-${live.began}`,
];

/** Each of them, in order, with what it is drawn with beside the properties of stored messages. */
export function comingOf(pending, live) {
  if (!live) return new Map();
  const keys = keysOf(pending, live);
  const drawn = (key, more) => ({ key, siblings: NO_SIBLINGS, ...more });
  return new Map([
    ...pending.map((message, index) => [message, drawn(keys[index], { isPending: true })]),
    [GROWING, drawn(keys.at(-1), { live })],
  ]);
}

/** The keys by the ids of the stored messages, of those before and of these. */
export function keysOfStored({ messages, head, keys, pending, live }) {
  const whole = pathTo(messages, head);
  // The daemon stores the instructions of a chat with its first message.
  const path = whole.slice(pathTo(messages, live.after).length || countInstructions(whole));
  const roles = [...pending, GROWING].map(({ role }) => role);
  const added = keysOf(pending, live).map((key, index) => path[index]?.role === roles[index] && [path[index].id, key]);
  return { ...keys, ...Object.fromEntries(added.filter(Boolean)) };
}
