// The daemon's words, in ours; and what stands where there are none yet.

import { html, t } from "/lib.js";
import { CLASSES } from "/parts.js";

/** Layers of a prompt that people can tell apart, and the daemon's own that belong to each. */
const FAMILIES = {
  system: ["axioms", "identity", "rules", "context", "memories", "affect"],
  tool: ["capabilities", "tool"],
  document: ["document"],
  user: ["user"],
  assistant: ["assistant"],
};

export const families = [...Object.keys(FAMILIES), "unknown"];
export const origins = ["computed", "generated", "shared", "memory", "disk"];

export const classNames = () => CLASSES.map((name) => [name, t(`class.${name}`)]);

const of = new Map(Object.entries(FAMILIES).flatMap(([family, layers]) => layers.map((layer) => [layer, family])));

export const familyOf = (layer) => of.get(layer) ?? "unknown";

/** What it is for, and what that part of the prompt is called where that says more. */
export function partOf(layer, key) {
  const family = t(`layer.${familyOf(layer)}`);
  return key && key !== "answer" && key !== layer ? `${family} (${key})` : family;
}

export const nameOf = ({ kind, title, conversation, profile }) =>
  kind === "prefix" ? t("map.prefix", { profile: profile ?? conversation ?? "" }) : title ?? conversation ?? t("map.nobody");

const PREFIXES = /^__(?:system_prefix__|prefix__:(.+))$/;

/** What kept KV is called: a chat by its title, the beginning of a profile by its name. */
export function keptName(conversation, titles) {
  const prefix = PREFIXES.exec(conversation);
  return prefix ? t("map.prefix", { profile: prefix[1] ?? "default" }) : titles.get(conversation) ?? conversation;
}

export const reading = () => html`<p class="note">${t("memory.reading")}</p>`;
