// The menu of a chat, and the import of exported chats.

import { api, go, route, t } from "/lib.js";
import { ask, askText, download, orToast, toast } from "/parts.js";
import { conversationPath, endPrivateChat, isPrivate, loadChats, moveToTrash, pin, rename } from "./chats.js";

const MAX_FILE_NAME_LETTERS = 60;

export function actions(chat) {
  const isPinned = chat.pinned;
  const exportAs = (format, extension) => ({
    icon: "download",
    label: t(`chat.export.${format}`),
    act: () => exportChat(chat, format, extension),
  });
  return [
    { icon: "edit", label: t("chat.rename"), act: () => renameChat(chat) },
    {
      icon: "pin",
      label: t(isPinned ? "chat.unpin" : "chat.pin"),
      act: () => pin(chat.id, !isPinned),
    },
    exportAs("markdown", "md"),
    exportAs("json", "json"),
    chat.place !== "none" && !isPrivate(chat.id) && exportAs("archive", "tar"),
    {
      icon: "trash",
      label: t(isPrivate(chat.id) ? "chat.end" : "chat.delete"),
      danger: true,
      act: () => deleteChat(chat),
    },
  ];
}

async function renameChat(chat) {
  const title = await askText({
    title: t("chat.rename"),
    label: t("chat.rename.label"),
    value: chat.title ?? "",
    yes: t("save"),
  });
  if (title) await rename(chat.id, title);
}

async function deleteChat(chat) {
  if (isPrivate(chat.id)) {
    const question = { title: t("chat.end.title"), text: t("chat.end.text"), yes: t("chat.end") };
    if (!(await ask(question))) return;
  }
  if (route.get().detail === chat.id) go("chat"); // Leave the page first.
  await (isPrivate(chat.id) ? endPrivateChat : moveToTrash)(chat.id);
}

async function exportChat(chat, format, extension) {
  const file = await orToast(
    api.bytes("GET", conversationPath(chat.id, `/export?format=${format}`)),
  );
  if (file) download(file, `${fileName(chat)}.${extension}`);
}

function fileName({ title, id }) {
  const letters = (title ?? id).replace(/[^\p{L}\p{N} _-]+/gu, "").trim();
  return letters.slice(0, MAX_FILE_NAME_LETTERS) || id;
}

const TYPES = { md: "text/markdown", json: "application/json", tar: "application/x-tar" };

export async function importChat(file) {
  const type = TYPES[file.name.split(".").pop()];
  if (!type) return toast(t("chat.import.unknown"));
  try {
    const content = await file.arrayBuffer();
    const imported = await api.post("/v1/conversations/import", content, { type });
    await loadChats();
    go("chat", imported.id);
    toast(importMessage(imported));
  } catch (error) {
    await ask({ title: t("chat.import.failed"), text: error.message, yes: t("close") });
  }
}

/** Says why the KV was left out, unless there is some already. */
function importMessage({ kv, conversation }) {
  const isLeftOut = kv?.reason && conversation.place === "none";
  return isLeftOut ? t("chat.imported.text", kv) : t("chat.imported");
}
