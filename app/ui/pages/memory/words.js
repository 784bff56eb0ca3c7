// The daemon's names of layers, origins and conversations, as the page shows them.

import { html, t } from "/lib.js";

/** The layers of a prompt, grouped as the map shows them. */
const FAMILIES = {
  system: ["axioms", "identity", "rules", "context", "memories", "affect"],
  tool: ["capabilities", "tool"],
  document: ["document"],
  user: ["user"],
  assistant: ["assistant"],
};

const FAMILY_OF = new Map(
  Object.entries(FAMILIES).flatMap(([family, layers]) => layers.map((layer) => [layer, family])),
);

export const families = [...Object.keys(FAMILIES), "unknown"];
export const origins = ["computed", "generated", "shared", "memory", "disk", "away"];

export const familyOf = (layer) => FAMILY_OF.get(layer) ?? "unknown";

/** The family, and the segment's key where that says more. */
export function partOf(layer, key) {
  const family = t(`layer.${familyOf(layer)}`);
  return key && key !== "answer" && key !== layer ? `${family} (${key})` : family;
}

export function nameOf({ kind, title, conversation, profile }) {
  if (isLearned(conversation)) return t("map.learned");
  if (kind === "prefix") return t("map.prefix", { profile: profile ?? conversation ?? "" });
  return title ?? hintName(conversation) ?? conversation ?? t("map.unnamed");
}

const isLearned = (conversation) => conversation?.startsWith("__learned__:");

/** The id of a profile's prefix; without a name, of the default profile's. */
const PREFIX_ID = /^__(?:system_prefix__|prefix__:(.+))$/;

/** The id of a hint: KV of a cache key, without a chat. */
const HINT_ID = /^__key_(?:\d+_)?_:(.+)$/;

function hintName(conversation) {
  const hint = HINT_ID.exec(conversation ?? "");
  return hint && t("map.hint", { key: hint[1] });
}

/** A chat's title, the profile whose prefix it is, or the cache key whose KV it is. */
export function savedName(conversation, titles) {
  if (isLearned(conversation)) return t("map.learned");
  const prefix = PREFIX_ID.exec(conversation);
  if (prefix) return t("map.prefix", { profile: prefix[1] ?? "default" });
  return titles.get(conversation) ?? hintName(conversation) ?? conversation;
}

export const loadingNote = () => html`<p class="note">${t("memory.reading")}</p>`;
