// Whether instructions are ready, or how far Hob is with reading them ahead.

import { html, t } from "/lib.js";
import { Icon } from "/parts.js";

const READING = { waiting: "profiles.waiting", warming: "profiles.warming" };

export const isBeingRead = ({ state }) => state in READING;

export function Warmth({ profile: { state, place, error } }) {
  if (error && !state) return null;
  const isReady = state === "warm" && Boolean(place) && place !== "none";
  return html`
    <span class="state ${isReady ? "ready" : "unread"}" data-test="warmth" data-state=${state ?? "none"}>
      <${Icon} name=${isReady ? "bolt" : "clock"} />${t(isReady ? "ready" : READING[state] ?? "profiles.unknown")}
    </span>`;
}
