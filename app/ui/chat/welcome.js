// A chat without messages: the model that will answer, and how to begin.

import { bytes, classes, html, t, useEffect, useStore } from "/lib.js";
import { Button, Icon } from "/parts.js";
import { isPrivate, status } from "./chats.js";
import { Demo } from "./demo.js";
import { loadModels, models } from "./models.js";

/** `isUnknown`: no chat has this address. */
export function Welcome({ conversation, isUnknown }) {
  const isHere = isPrivate(conversation.id);
  return html`
    <div class="stack welcome">
      ${isHere ? html`<${Icon} name="private" />` : html`<img src="icon.svg" alt="" />`}
      <h2>${t(isHere ? "chat.private.title" : "welcome.title")}</h2>
      ${isUnknown && !isHere && html`<p class="note" data-test="unknown">${t("welcome.unknown")}</p>`}
      <p class="note">${t(isHere ? "chat.private.long" : "welcome.text")}</p>
      <${Runs} />
    </div>`;
}

/** The running model in the list, which is read again when another one runs. Undefined before. */
function useRunning() {
  const fingerprint = useStore(status, ({ now }) => now?.fingerprint);
  const list = useStore(models, ({ list }) => list);
  useEffect(() => {
    // Without it, its name stands in the head.
    if (fingerprint) loadModels().catch(() => {});
  }, [fingerprint]);
  return list && { model: list.data.find(({ current }) => current), free: list.free_bytes };
}

function Runs() {
  const running = useRunning();
  const isDemo = useDemo();
  if (isDemo) return html`<${Demo} />`;
  if (!running?.model) return html`<p class="runs"><strong>\u00a0</strong></p>`;
  const { model, free } = running;
  const { estimate, name } = model;
  const needed = estimate && estimate.weights_bytes + estimate.kv_bytes;
  const fit = needed && free && {
    needed: bytes(needed),
    free: bytes(free + estimate.weights_bytes),
  };
  return html`
    <p class="runs" data-test="runs">
      <strong>${name}</strong>
      ${fit && ` · ${t("welcome.fit", fit)}`}
    </p>`;
}

/** Whether the bundled model answers; undefined while unknown. */
const useDemo = () => useStore(status, ({ now }) => now?.demo);

/** Of the demo: what it can answer, sent at once. Of another model: beginnings to complete. */
export function Suggestions({ conversation }) {
  const isDemo = useDemo();
  if (isPrivate(conversation.id)) return null;
  const choose = (n) => {
    if (isDemo) return conversation.send(t(`suggest.demo.${n}`));
    conversation.write(t(`suggest.${n}.text`));
    const field = document.querySelector(".composer textarea");
    field.focus();
    return requestAnimationFrame(() => field.setSelectionRange(field.value.length, field.value.length));
  };
  // Until the model is known they keep their place: a composer that moved would miss a click.
  return html`
    <div class=${classes("row suggestions", isDemo === undefined && "unknown")}>
      ${[1, 2, 3].map((n) => html`
        <${Button} onClick=${() => choose(n)}>${t(isDemo ? `suggest.demo.${n}` : `suggest.${n}`)}<//>`)}
    </div>`;
}
