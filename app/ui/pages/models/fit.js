// The memory that a model needs against what is free, as a bar and in words, with its context as a slider.

import { bytes, classes, html, t } from "/lib.js";
import { Icon } from "/parts.js";
import { ContextSlider, limitWords } from "./context.js";

const ICONS = { fits: "check", tight: "warning", too_large: "close" };
/** Above this part of the free memory a fit is called tight, as the daemon does. */
const TIGHT = 0.9;

/** What a model takes with a context of `ctx` tokens. Pure. */
export function fitOf(model, list, ctx) {
  const { estimate, current, contexts = [] } = model;
  const size = contexts.find(({ tokens }) => tokens === ctx);
  const weights = estimate?.weights_bytes ?? 0;
  const kv = size?.kv_bytes ?? estimate?.kv_bytes ?? 0;
  // The running model's own weights are not free, but they are there for it: on a device as its free
  // memory, else here.
  const own = current ? list.current_weights_bytes ?? weights : 0;
  const free = list.free_bytes && list.free_bytes + own + (list.device_free_bytes ?? 0);
  return { weights, kv, free, verdict: verdictOf(weights + kv, free) };
}

function verdictOf(total, free) {
  if (!free) return null;
  if (total > free) return "too_large";
  return total > free * TIGHT ? "tight" : "fits";
}

/** `ctx`: the chosen context; `onContext`: null where it cannot be chosen. */
export function Fit({ model, list, ctx = model.ctx, onContext }) {
  const { estimate, current, contexts, trained_context: trained } = model;
  const { weights, kv, free, verdict } = fitOf(model, list, ctx);
  const slider = onContext && contexts?.length > 1 && html`
    <${ContextSlider}
      contexts=${contexts}
      value=${ctx}
      disabled=${Boolean(list.fixed_context)}
      onChange=${onContext}
    />
    ${list.fixed_context && html`
      <p class="note">${t("settings.locked", { by: list.fixed_context })}</p>`}`;
  if (!estimate) return html`<p class="note">${t("models.stand-in")}</p>${slider}`;
  const isChosen = ctx === model.ctx;
  const runs = current && isChosen;
  const limit = limitWords(ctx, isChosen && model.ctx_limit, trained);
  return html`
    <div class="stack fit" data-test="fit">
      <${FitBar} weights=${weights} kv=${kv} free=${free} />
      <p class="fit-words">
        <span class="fit-key"><i class="fit-weights"></i><i class="fit-kv"></i></span>
        ${t("models.takes", { weights, kv, tokens: ctx })}
      </p>
      ${limit && html`<p class="note" data-test="limit">${limit}</p>`}
      ${slider}
      ${verdict && html`
        <p class=${classes("verdict", verdict)}>
          <${Icon} name=${ICONS[verdict]} small />
          ${t(`models.verdict.${runs ? "runs" : verdict}`, { free })}
        </p>`}
      ${list.device_free_bytes > 0 && html`
        <p class="note">${onDevice(weights + kv, list)}</p>`}
    </div>`;
}

/** Whether the devices hold all of a model that takes `total`, or how many layers the settings put there, in words. */
export function onDevice(total, { devices, used_devices: used, device_free_bytes: free, gpu_layers: layers }) {
  // An older hobd does not say which are used.
  const device = (used ?? devices.map(({ name }) => name)).join(", ");
  if (layers != null) return t("models.device.layers", { n: layers, device });
  return t(total <= free ? "models.device.all" : "models.device.part", { device, free });
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
