// Whether the next answer of a chat begins at once, in a person's words. The daemon looks it up.

import { html, t } from "/lib.js";
import { Icon } from "/parts.js";

const SECOND = 1000;
const MINUTES_FROM = 100 * SECOND;

/** `ready`; `read_ms`: the time to read the chat again, null while unknown. */
function readyWords({ ready, read_ms: ms }) {
  if (ready) return t("ready");
  if (ms == null) return t("ready.again");
  if (ms < SECOND) return t("ready.again.soon");
  if (ms < MINUTES_FROM) return t("ready.again.seconds", { n: Math.round(ms / SECOND) });
  return t("ready.again.minutes", { n: Math.round(ms / (60 * SECOND)) });
}

const stateOf = (ready) => (ready ? "ready" : "unread");

export function Ready({ ready, read_ms }) {
  const state = stateOf(ready);
  return html`
    <span class="state ${state}" data-test="state" data-state=${state} title=${t(`ready.${state}.long`)}>
      <${Icon} name=${ready ? "bolt" : "clock"} />${readyWords({ ready, read_ms })}
    </span>`;
}

/** In the list: the icon alone. The words show under the pointer and beside the row with the focus. */
export function ReadyIcon({ ready, read_ms }) {
  if (ready == null) return null;
  const state = stateOf(ready);
  const words = readyWords({ ready, read_ms });
  return html`
    <span class="state ready-icon ${state}" data-test="state" data-state=${state}>
      <${Icon} name=${ready ? "bolt" : "clock"} />
      <span class="hidden-text">${words}, </span><span class="ready-tip" aria-hidden="true">${words}</span>
    </span>`;
}
