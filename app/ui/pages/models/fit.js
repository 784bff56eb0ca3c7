// What a model would take of the free memory, as a bar and in words.

import { bytes, classes, html, t } from "/lib.js";
import { Icon } from "/parts.js";

const ICONS = { fits: "check", tight: "warning", too_large: "close" };

export function Fit({ model, list }) {
  const { estimate, verdict, current } = model;
  if (!estimate) return html`<p class="note">${t("models.stand-in")}</p>`;
  const { weights_bytes, kv_bytes } = estimate;
  const free = list.free_bytes && list.free_bytes + (current ? weights_bytes : 0);
  const whole = Math.max(weights_bytes + kv_bytes, free ?? 0);
  const width = (part) => ({ width: `${(100 * part) / whole}%` });
  const words = t("models.takes", { weights: weights_bytes, kv: kv_bytes, tokens: list.ctx });
  return html`<div class="stack fit" data-test="fit">
    <div class="fit-bar" aria-hidden="true">
      <span class="fit-weights" style=${width(weights_bytes)}></span><span class="fit-kv" style=${width(kv_bytes)}></span>
      ${free && free < whole && html`<span class="fit-limit" style=${{ insetInlineStart: `${(100 * free) / whole}%` }}></span>`}
    </div>
    <p class="fit-words"><span class="fit-key"><i class="fit-weights"></i><i class="fit-kv"></i></span>${words}</p>
    ${verdict && html`<p class=${classes("verdict", verdict)}><${Icon} name=${ICONS[verdict]} small />
      ${t(current ? "models.verdict.runs" : `models.verdict.${verdict}`, { free })}</p>`}
  </div>`;
}

export function facts(model) {
  return [
    model.size_bytes != null && bytes(model.size_bytes),
    model.quantisation,
    model.architecture,
    model.trained_context && t("models.context", { tokens: model.trained_context }),
    model.memory && model.memory !== "plain" && t(`models.memory.${model.memory}`),
    model.pooling && t("models.embeds"),
  ].filter(Boolean).join(" · ");
}
