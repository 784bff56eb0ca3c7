// The menu of a chat, and the export of chats.

import { api, importModule, t, withTexts } from "/lib.js";
import { askText, download, orToast } from "/parts.js";
import { conversationPath, isPrivate, pin, rename } from "./chats.js";
import { toggle } from "./picked.js";

const MAX_FILE_NAME_LETTERS = 60;

/** `isListed`: the menu of a row in the list, where chats can be picked. */
export function actions(chat, { isListed } = {}) {
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
    isListed && { icon: "check", label: t("chat.pick"), act: () => toggle(chat.id) },
    exportAs("markdown", "md"),
    exportAs("json", "json"),
    chat.place !== "none" && !isPrivate(chat.id) && exportAs("archive", "tar"),
    {
      icon: "trash",
      label: t(isPrivate(chat.id) ? "chat.end" : "chat.delete"),
      danger: true,
      act: () => deleteChats([chat]),
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

async function exportChat(chat, format, extension) {
  const file = await orToast(
    api.bytes("GET", conversationPath(chat.id, `/export?format=${format}`)),
  );
  if (file) download(file, `${fileName(chat)}.${extension}`);
}

/** Leaves the page of a chat that is deleted. */
export async function deleteChats(list) {
  const module = await orToast(withTexts(importModule("/chat/deleting.js")));
  await module?.deleteChats(list);
}

/** Several chats as one file, an array of what each is alone. */
export async function exportChats(list) {
  if (list.length === 1) return exportChat(list[0], "json", "json");
  const read = async () => {
    const documents = [];
    for (const { id } of list) documents.push(await api.get(conversationPath(id, "/export?format=json")));
    return documents;
  };
  const documents = await orToast(read());
  if (!documents) return;
  const file = new Blob([JSON.stringify(documents, null, 2)], { type: "application/json" });
  download(file, `${t("picked.file", { n: list.length })}.json`);
}

function fileName({ title, id }) {
  const letters = (title ?? id).replace(/[^\p{L}\p{N} _-]+/gu, "").trim();
  return letters.slice(0, MAX_FILE_NAME_LETTERS) || id;
}
