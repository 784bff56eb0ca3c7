// One setting: its name, what it does and costs, when a change applies, and its control.

import { html, t } from "/lib.js";
import { Icon } from "/parts.js";

/**
 * `applies`: `now` or `reload`; null says nothing. `fixed`: the flag or variable that locks it.
 * `wide`: the control is below the words.
 */
export function Setting({ label, note, applies, fixed, wide, children }) {
  return html`
    <label class=${wide ? "setting wide" : "setting"}>
      <span class="setting-words">
        <span class="row setting-name">
          ${label}
          ${applies && !fixed && html`<span class="applies">${t(`settings.applies.${applies}`)}</span>`}
        </span>
        ${note && html`<span class="note">${note}</span>`}
        ${fixed && html`
          <span class="note locked" data-test="locked">
            <${Icon} name="private" small />${t("settings.locked", { by: fixed })}
          </span>`}
      </span>
      <span class="setting-control">${children}</span>
    </label>`;
}
