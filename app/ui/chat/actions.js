// What can be done with a chat as a whole, as the items of a menu.

import { api, go, route, t } from "/lib.js";
import { ask, askText, download, say, told } from "/parts.js";
import { discard, loadChats, path, pin, rename } from "./chats.js";

export function actions(chat) {
  return [
    { icon: "edit", label: t("chat.rename"), act: () => renameChat(chat) },
    { icon: "pin", label: t(chat.pinned ? "chat.unpin" : "chat.pin"), act: () => pin(chat.id, !chat.pinned) },
    { icon: "download", label: t("chat.export.markdown"), act: () => exportChat(chat, "markdown", "md") },
    { icon: "download", label: t("chat.export.json"), act: () => exportChat(chat, "json", "json") },
    chat.place !== "none" && { icon: "download", label: t("chat.export.archive"), act: () => exportChat(chat, "archive", "tar") },
    { icon: "trash", label: t("chat.delete"), danger: true, act: () => discardChat(chat) },
  ];
}

async function renameChat(chat) {
  const title = await askText({ title: t("chat.rename"), label: t("chat.rename.label"), value: chat.title ?? "", yes: t("save") });
  if (title) await rename(chat.id, title);
}

/** Shows another page before the chat goes, if it is the one that is shown. */
export async function discardChat(chat) {
  if (route.get().detail === chat.id) go("chat");
  await discard(chat.id);
}

async function exportChat(chat, format, ending) {
  const file = await told(api.bytes("GET", path(chat.id, `/export?format=${format}`)));
  const name = (chat.title ?? chat.id).replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || chat.id;
  if (file) download(file, `${name}.${ending}`);
}

const TYPES = { md: "text/markdown", json: "application/json", tar: "application/x-tar" };

/** Takes in a file that was exported, here or elsewhere. */
export async function importChat(file) {
  const type = TYPES[file.name.split(".").pop()];
  if (!type) return say(t("chat.import.unknown"));
  try {
    const { id, kv, conversation } = await api.post("/v1/conversations/import", await file.arrayBuffer(), { type });
    await loadChats();
    go("chat", id);
    // What is here already is not missed.
    say(kv?.reason && conversation.place === "none" ? t("chat.imported.text", kv) : t("chat.imported"));
  } catch (error) {
    await ask({ title: t("chat.import.failed"), text: error.message, yes: t("close") });
  }
}
