// One setting: its name, what it does and costs, when a change applies, and its control.

import { html, t } from "/lib.js";
import { Icon, Select } from "/parts.js";

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

/** One of the daemon's settings with its choices, `[value, text]` each; `format` names a value that is none of them. */
export function Choose({ setting, value, options, format = String, onChange, label, note }) {
  const isKnown = options.some(([step]) => String(step) === String(value));
  const all = isKnown ? options : [...options, [value, format(value)]];
  const choose = (chosen) => onChange(/^\d+$/.test(chosen) ? Number(chosen) : chosen);
  return html`
    <${Setting} label=${label} note=${note} applies=${setting.applies} fixed=${setting.fixed}>
      <${Select}
        value=${String(value)}
        options=${all.map(([step, text]) => [String(step), text])}
        disabled=${Boolean(setting.fixed)}
        onChange=${choose}
        data-test=${`set-${setting.key}`}
      />
    <//>`;
}
