// Imports chats from files: Hob's own, and the exports of other apps. The daemon reads them.

import { api, go, html, t } from "/lib.js";
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

/** Skipped chats that are named. */
const MAX_NAMED = 6;

/** One after the other; shows the first chat of the last file. A failure names the file and ends the import. */
export async function importChats(files) {
  for (const file of files) {
    const done = await importFile(file);
    if (!done) return;
    const imported = done.data ?? [done];
    await loadChats();
    go("chat", imported[0].id);
    // A message goes with the page that it was shown on.
    await new Promise(requestAnimationFrame);
    toast(messageOf(imported));
    if (done.skipped?.length) await tellSkipped(done.skipped);
  }
}

/** Which chats of a file were not imported, and why. */
function tellSkipped(skipped) {
  const lineOf = ({ title, reason }) => html`${title ?? t("chat.untitled")}: ${reason}<br />`;
  const others = skipped.length - MAX_NAMED;
  const text = [skipped.slice(0, MAX_NAMED).map(lineOf), others > 0 && t("prune.others", { n: others })];
  return tell({ title: t("chats.skipped", { n: skipped.length }), text });
}

/** The daemon's answer about a file; nothing after a failure, which a dialog has said. */
async function importFile(file) {
  const type = TYPES[file.name.split(".").pop().toLowerCase()];
  try {
    if (!type) throw new Error(t("chat.import.unknown"));
    return await api.post("/v1/conversations/import", await file.arrayBuffer(), { type });
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
