// Which KV the answers of a chat may use, and what the chat does that outgrows the context: each choice with what it
// costs. What is left open is as its instructions say.

import { html, t } from "/lib.js";
import { Select } from "/parts.js";

const CHOICES = { beyond: ["end", "reanchor"], reuse: ["exact", "repaired"] };

/** `chosen`: a value or null for each of the choices. */
export const KvChoice = ({ chosen, onChange }) => html`
  <fieldset class="kv-choice stack" data-test="kv-choice">
    <legend>${t("kv.title")}</legend>
    ${Object.entries(CHOICES).map(([name, values]) => html`
      <div class="field">
        <label for=${`kv-${name}`}>${t(`kv.${name}`)}</label>
        <${Select}
          id=${`kv-${name}`}
          name=${name}
          value=${chosen[name] ?? "open"}
          options=${["open", ...values].map((value) => [value, t(`kv.${name}.${value}`)])}
          onChange=${(value) => onChange({ ...chosen, [name]: value === "open" ? null : value })}
          aria-describedby=${`kv-${name}-long`}
        />
        <p class="note" id=${`kv-${name}-long`}>${t(`kv.${name}.${chosen[name] ?? "open"}.long`)}</p>
      </div>`)}
  </fieldset>`;
