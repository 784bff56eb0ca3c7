// Imports chats from files: Hob's own, and the exports of other apps. The daemon reads them.

import { api, go, t } from "/lib.js";
import { tell, toast } from "/parts.js";
import { loadChats } from "./chats.js";

/** By the end of a file's name. */
const TYPES = {
  json: "application/json",
  jsonl: "application/jsonl",
  md: "text/markdown",
  tar: "application/x-tar",
  zip: "application/zip",
};

/** One after the other; shows the first chat of the last file. A failure names the file and ends the import. */
export async function importChats(files) {
  for (const file of files) {
    const imported = await importFile(file);
    if (!imported) return;
    await loadChats();
    go("chat", imported[0].id);
    // A message goes with the page that it was shown on.
    await new Promise(requestAnimationFrame);
    toast(messageOf(imported));
  }
}

/** The chats of a file; nothing after a failure, which a dialog has said. */
async function importFile(file) {
  const type = TYPES[file.name.split(".").pop().toLowerCase()];
  try {
    if (!type) throw new Error(t("chat.import.unknown"));
    const done = await api.post("/v1/conversations/import", await file.arrayBuffer(), { type });
    return done.data ?? [done];
  } catch (error) {
    await tell({ title: t("chat.import.failed", { file: file.name }), text: error.message });
    return null;
  }
}

/** Of one chat it says why the KV was left out, unless there is some already. */
function messageOf(imported) {
  if (imported.length > 1) return t("chats.imported", { n: imported.length });
  const [{ kv, conversation }] = imported;
  const isLeftOut = kv?.reason && conversation.place === "none";
  return isLeftOut ? t("chat.imported.text", kv) : t("chat.imported");
}
