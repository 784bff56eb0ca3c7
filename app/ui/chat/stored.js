// The stored messages of a branch: not drawn anew while an answer streams or somebody writes.

import { html, pure, useMemo } from "/lib.js";
import { Message } from "./message.js";
import { reusedTokens, siblingsOf } from "./tree.js";

/** So many messages are laid out as one while they are out of sight; their height is in `chat.css`. */
const STRETCH = 20;
const NONE = [];

export const Stored = pure(({ messages, path, talk, busy }) => {
  const branches = useMemo(() => variants(messages, path), [messages, path]);
  const last = busy ? null : path.at(-1);
  const stretches = path.flatMap((_, at) => (at % STRETCH ? NONE : [path.slice(at, at + STRETCH)]));
  return stretches.map((stretch, at) => html`<div key=${at} class=${stretch.length === STRETCH && "stretch"}>
    ${stretch.map((message) => html`<${Message} key=${message.id} message=${message} talk=${talk} busy=${busy} ...${branches.get(message.id)} isLast=${message === last} />`)}
  </div>`);
});

/** Of each message of the branch: its variants, and how much of the prompt its branch did not compute. */
function variants(messages, path) {
  return new Map(path.map((message) => {
    const siblings = siblingsOf(messages, message);
    if (siblings.length < 2) return [message.id, { siblings: NONE }];
    const answer = message.role === "assistant" ? message : messages.find(({ parent }) => parent === message.id);
    return [message.id, { siblings, reused: reusedTokens(answer) }];
  }));
}
