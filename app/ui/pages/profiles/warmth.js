// Where a profile's prefix is, or that it is on its way.

import { html, t } from "/lib.js";
import { Icon } from "/parts.js";

export function Warmth({ profile: { state, place, error } }) {
  if (error && !state) return null;
  const shown = state === "warm" && place !== "none" ? place ?? "none" : "none";
  const word = { waiting: "profiles.waiting", warming: "profiles.warming", warm: `state.${shown}` }[state] ?? "profiles.unknown";
  return html`<span class="state ${shown}" data-test="warmth" data-state=${state ?? "none"}><${Icon} name=${shown} />${t(word)}</span>`;
}
