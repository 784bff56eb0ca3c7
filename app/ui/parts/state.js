// The KV tier of a chat, as an icon and a word: never as a colour alone.

import { html, t } from "/lib.js";
import { Icon } from "./icon.js";

/** From the daemon's places. */
const TIERS = { slot: "hot", memory: "warm", disk: "cold", none: "none" };

/** `place`: null while it is unknown. */
export function State({ place }) {
  if (place === null) return null;
  const tier = TIERS[place] ?? "none";
  return html`
    <span class="state ${tier}" data-test="state" data-state=${tier} title=${t(`state.${tier}.long`)}>
      <${Icon} name=${tier} />${t(`state.${tier}`)}
    </span>`;
}
