// Where a chat's KV is, as a mark and a word, never as a colour alone; and how long it stays.

import { html, t } from "/lib.js";
import { Icon } from "./icon.js";

/** How long something stays on disk, the shortest first. */
export const CLASSES = ["short", "long", "extended", "kept"];

/** The daemon's word for a place, in ours. */
const STATES = { slot: "hot", memory: "warm", disk: "cold", none: "none" };

/** Nothing while it is not known. */
export function State({ place }) {
  if (place === null) return null;
  const state = STATES[place] ?? "none";
  return html`<span class="state ${state}" data-test="state" data-state=${state} title=${t(`state.${state}.long`)}>
    <${Icon} name=${state} />${t(`state.${state}`)}
  </span>`;
}
