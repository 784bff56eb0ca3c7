// Ways to go on with a chat whose context is full: later prompts begin with a newer message, or another
// chat begins with the last ones. The text stays.
//
// - The daemon changes the chat once a summary is complete. One that is stopped, or left with the page, changes
//   nothing.

import { api, isCancelled, t } from "/lib.js";
import { conversationPath } from "./chats.js";
import { visiblePath } from "./conversation.js";
import { countInstructions } from "./tree.js";

/** Running ones, by chat. */
const running = new Map();

/**
 * Leaves out the oldest messages; the model summarises them if `summarises`. The chat's store has
 * `shortening` meanwhile: the last report, and the summary so far. Resolves to whether it is done.
 */
export async function shorten(conversation, summarises) {
  const { id, store } = conversation;
  if (running.has(id)) return false;
  const leaving = new AbortController();
  running.set(id, leaving);
  const shown = { progress: null, text: "" };
  const draw = () => store.set({ shortening: { ...shown } });
  draw();
  try {
    const { profile } = store.get();
    const body = { summarise: summarises, ...(profile && { hob: { profile } }) };
    const options = { body, signal: leaving.signal };
    for await (const { hob, text } of api.stream("POST", conversationPath(id, "/shorten"), options)) {
      shown.progress = hob?.progress ?? shown.progress;
      shown.text += text ?? "";
      draw();
    }
    await conversation.load();
    return true;
  } catch (error) {
    if (!isCancelled(error)) store.set({ error, outgrown: store.get().outgrown });
    return false;
  } finally {
    running.delete(id);
    store.set({ shortening: null });
  }
}

export const stopShortening = ({ id }) => running.get(id)?.abort();

/** A new chat with the instructions and the last `n` messages of this one. Resolves to its id. */
export async function branchWithLast(conversation, n, title) {
  const state = conversation.store.get();
  const path = visiblePath(state);
  const front = path.slice(0, countInstructions(path));
  let from = Math.max(front.length, path.length - n);
  while (from < path.length - 1 && path[from].role !== "user") from += 1;
  const messages = [...front, ...path.slice(from)].map(exported);
  const document = {
    format: "hob conversation",
    version: 1,
    title: title && t("room.branch.title", { title }),
    ...(state.instructions !== null && { instructions: state.instructions }),
    sampling: state.sampling,
    messages,
  };
  const imported = await api.post("/v1/conversations/import", document);
  return imported.id;
}

/** `message`: without what is Hob's own. */
function exported({ id: _, parent, status, created_at, finish, starts_prompt, summary, ...message }, index) {
  return { id: index + 1, parent: index || null, status: "complete", created_at, finish, message };
}
