// Deletes chats: into the trash, from where each can be restored. A private chat ends at once.

import { api, go, route, t } from "/lib.js";
import { ask, orToast, toast } from "/parts.js";
import { conversationPath, isPrivate, removeChats, upsertChat } from "./chats.js";
import { forget } from "./conversation.js";
import { unpick } from "./picked.js";

/** Leaves the page of a chat that is deleted. Private ones are asked about, for nothing restores them. */
export async function deleteChats(list) {
  const [ended, trashed] = [list.filter(({ id }) => isPrivate(id)), list.filter(({ id }) => !isPrivate(id))];
  if (ended.length) {
    const question = { title: t("chat.end.title"), text: t("chat.end.text"), yes: t("chat.end"), danger: true };
    if (!(await ask(question))) return;
  }
  const { detail: open } = route.get();
  const wasOpen = list.some(({ id }) => id === open);
  // Leave the page first.
  if (wasOpen) go("chat");
  unpick();
  if (ended.length) await endPrivateChats(ended);
  if (trashed.length) await moveToTrash(trashed, wasOpen ? open : null);
}

async function endPrivateChats(list) {
  const ended = await deleteForGood(list);
  removeChats(ended);
  if (ended.length) toast(t("chat.ended"));
}

/** `open`: the chat that the undo goes back to. */
async function moveToTrash(list, open) {
  const moved = await each(list, ({ id }) => api.patch(conversationPath(id), { trashed: true }));
  removeChats(moved);
  if (!moved.length) return;
  const [{ title }] = moved;
  const text = moved.length === 1
    ? t("chat.deleted", { title: title ?? t("chat.untitled") })
    : t("chats.deleted", { n: moved.length });
  toast(text, { label: t("undo"), act: () => restoreChats(moved, open) });
}

/** Takes chats out of the trash, and shows the one with the id `open`. */
export async function restoreChats(list, open) {
  const restored = await each(list, async ({ id }) => {
    upsertChat(await api.patch(conversationPath(id), { trashed: false }));
  });
  if (restored.some(({ id }) => id === open)) go("chat", open);
  return restored;
}

/** Deletes chats for good, here too. */
export const deleteForGood = (list) => each(list, async ({ id }) => {
  await api.del(conversationPath(id));
  forget(id);
});

/** One after the other; those for which it worked. */
async function each(list, act) {
  const done = [];
  for (const chat of list) {
    const outcome = await orToast(act(chat).then(() => chat));
    if (!outcome) break;
    done.push(chat);
  }
  return done;
}
