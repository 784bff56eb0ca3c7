// The body of a request for an answer.

import { isPrivate } from "./chats.js";

/** `state`: of the conversation. `asked`: those of `cold`, `newest` and `continue` that are true. */
export function requestBody(id, state, messages, { after, ...asked }) {
  const flags = Object.fromEntries(Object.entries(asked).filter(([, isAsked]) => isAsked));
  const hob = { ...hobFields(id, state, after), ...flags, progress: true, detached: true };
  const { sampling, isSamplingStored } = state;
  return { conversation: id, messages, hob, stream: true, ...(!isSamplingStored && sampling) };
}

/** What a request of the conversation has in `hob`, whatever it asks for. */
export function hobFields(id, state, after) {
  const { state: place, instructions } = state;
  return {
    append: true,
    ...(place === "new" && instructions !== null && { instructions }),
    ...(after !== undefined && { after }),
    ...kvFields(state),
    ...(isPrivate(id) && { private: true }),
  };
}

/** The part of it that decides which KV a prompt begins with: a prewarm must ask for that of the answer. */
export const kvFields = ({ profile, beyond, reuse }) => ({
  ...(profile && { profile }),
  ...(beyond && { beyond }),
  ...(reuse && { reuse }),
});
