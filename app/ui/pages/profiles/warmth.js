// The tier of a profile's prefix, or the progress of its prewarm.

import { html, t } from "/lib.js";
import { Icon } from "/parts.js";

const PREWARMING = { waiting: "profiles.waiting", warming: "profiles.warming" };

export function Warmth({ profile: { state, place, error } }) {
  if (error && !state) return null;
  const tier = state === "warm" ? place ?? "none" : "none";
  return html`
    <span class="state ${tier}" data-test="warmth" data-state=${state ?? "none"}>
      <${Icon} name=${tier} />${t(nameOf(state, tier))}
    </span>`;
}

function nameOf(state, tier) {
  if (state === "warm") return `state.${tier}`;
  return PREWARMING[state] ?? "profiles.unknown";
}
