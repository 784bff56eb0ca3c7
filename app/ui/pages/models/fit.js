// The memory that a model needs against what is free, as a bar and in words.

import { bytes, classes, html, t } from "/lib.js";
import { Icon } from "/parts.js";

const ICONS = { fits: "check", tight: "warning", too_large: "close" };

export function Fit({ model, list }) {
  const { estimate, verdict, current } = model;
  if (!estimate) return html`<p class="note">${t("models.stand-in")}</p>`;
  const { weights_bytes: weights, kv_bytes: kv } = estimate;
  // The running model's own weights are not free, but they are there for it.
  const free = list.free_bytes && list.free_bytes + (current ? weights : 0);
  return html`
    <div class="stack fit" data-test="fit">
      <${FitBar} weights=${weights} kv=${kv} free=${free} />
      <p class="fit-words">
        <span class="fit-key"><i class="fit-weights"></i><i class="fit-kv"></i></span>
        ${t("models.takes", { weights, kv, tokens: list.ctx })}
      </p>
      ${verdict && html`
        <p class=${classes("verdict", verdict)}>
          <${Icon} name=${ICONS[verdict]} small />
          ${t(`models.verdict.${current ? "runs" : verdict}`, { free })}
        </p>`}
    </div>`;
}

function FitBar({ weights, kv, free }) {
  const whole = Math.max(weights + kv, free ?? 0);
  const percent = (part) => `${(100 * part) / whole}%`;
  return html`
    <div class="fit-bar" aria-hidden="true">
      <span class="fit-weights" style=${{ width: percent(weights) }}></span>
      <span class="fit-kv" style=${{ width: percent(kv) }}></span>
      ${free && free < whole && html`
        <span class="fit-limit" style=${{ insetInlineStart: percent(free) }}></span>`}
    </div>`;
}

export function facts(model) {
  const { size_bytes: size, trained_context: tokens, memory } = model;
  return [
    size != null && bytes(size),
    model.quantisation,
    model.architecture,
    tokens && t("models.context", { tokens }),
    memory && memory !== "plain" && t(`models.memory.${memory}`),
    model.pooling && t("models.embeds"),
  ].filter(Boolean).join(" · ");
}
