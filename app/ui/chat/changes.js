// Changes of single messages: another text, a pin, deletion with what follows, a new chat from the beginning.

import { api, go, t } from "/lib.js";
import { orToast, toast } from "/parts.js";
import { chatOf, conversationPath, isPrivate, newId, status, upsertChat } from "./chats.js";
import { takeChoices } from "./conversation.js";
import { countBelow, isPinned } from "./tree.js";

const messagePath = (conversation, message, suffix = "") =>
  conversationPath(conversation.id, `/messages/${message.id}${suffix}`);

/** The old text stays as a branch. Resolves to whether it has another text now. */
export async function changeText(conversation, message, content) {
  const changed = await orToast(api.patch(messagePath(conversation, message), { content }));
  if (changed) await conversation.load();
  return Boolean(changed);
}

/** The items of a message's menu. An engine at another address takes no pins. */
export function changes(conversation, message) {
  const below = countBelow(conversation.store.get().messages, message);
  const wasPinned = isPinned(message);
  return [
    !status.get().now?.upstream && {
      icon: "pin",
      label: t(wasPinned ? "message.unpin" : "message.pin"),
      act: () => pin(conversation, message, !wasPinned),
    },
    !isPrivate(conversation.id) && {
      icon: "fork",
      label: t("message.fork"),
      act: () => fork(conversation, message),
    },
    {
      icon: "trash",
      label: below ? t("message.delete.below", { n: below }) : t("message.delete"),
      danger: true,
      act: () => remove(conversation, message),
    },
  ];
}

async function pin(conversation, message, pins) {
  const body = { hob: { pin: pins } };
  if (!(await orToast(api.patch(messagePath(conversation, message), body)))) return;
  await conversation.load();
  if (pins) toast(t("message.pinned"));
}

async function remove(conversation, message) {
  const deleted = await orToast(api.del(messagePath(conversation, message)));
  if (!deleted) return;
  await conversation.load();
  const act = async () => {
    if (await orToast(api.post(messagePath(conversation, message, "/restore"), {}))) await conversation.load();
  };
  toast(t("message.deleted", { n: deleted.deleted }), { label: t("undo"), act });
}

async function fork(conversation, message) {
  const title = t("message.fork.title", { title: chatOf(conversation.id)?.title ?? t("chat.untitled") });
  const body = { message: message.id, id: newId(false), title };
  const chat = await orToast(api.post(conversationPath(conversation.id, "/fork"), body));
  if (!chat) return;
  upsertChat(chat);
  takeChoices(chat.id, conversation);
  go("chat", chat.id);
  toast(t("message.forked"));
}
