// The context of a model as a slider, with the bytes that each choice takes.

import { bytes, count, html, t } from "/lib.js";

/** Tokens in the fewest letters: 8k, 500 */
const short = (tokens) => (tokens % 1024 ? count(tokens) : `${count(tokens / 1024)}k`);

/** Why a context is not larger, by the daemon's word; null where its size was set. `trained`: null where unknown. */
export function limitWords(tokens, limit, trained) {
  if (trained && tokens > trained) return t("context.shared", { tokens: trained });
  if (limit === "memory" && !trained) return t("context.limit.memory.alone");
  return limit && limit !== "set" ? t(`context.limit.${limit}`, { trained }) : null;
}

/** `contexts`: `{ tokens, kv_bytes }`, ascending. */
export function ContextSlider({ contexts, value, disabled, onChange }) {
  const known = contexts.some(({ tokens }) => tokens === value);
  const steps = known ? contexts : [...contexts, { tokens: value, kv_bytes: null }];
  steps.sort((a, b) => a.tokens - b.tokens);
  const at = steps.findIndex(({ tokens }) => tokens === value);
  const { kv_bytes: kv } = steps[at];
  const words = t("context.takes", { tokens: value, size: kv == null ? "?" : bytes(kv) });
  const ends = [steps[0], steps.at(-1)].filter(({ kv_bytes }) => kv_bytes != null);
  return html`
    <span class="context">
      <input
        type="range"
        min="0"
        max=${steps.length - 1}
        step="1"
        value=${at}
        disabled=${disabled || steps.length < 2}
        aria-label=${t("settings.context")}
        aria-valuetext=${words}
        onInput=${({ target }) => onChange(steps[target.value].tokens)}
        data-test="context"
      />
      <output class="figure" data-test="context-takes">${words}</output>
      ${ends.length > 1 && html`
        <span class="note figure context-ends">
          ${ends.map((end) => html`
            <span>${t("context.end", { tokens: short(end.tokens), size: bytes(end.kv_bytes) })}</span>`)}
        </span>`}
    </span>`;
}
