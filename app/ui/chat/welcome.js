// A chat without messages: the model that will answer, and how to begin.

import { address, bytes, html, t, useEffect, useStore } from "/lib.js";
import { Button, Icon } from "/parts.js";
import { isPrivate, status } from "./chats.js";
import { DEMO, loadModels, models } from "./models.js";

export function Welcome({ conversation }) {
  if (isPrivate(conversation.id)) return html`<${PrivateWelcome} />`;
  return html`
    <div class="stack welcome">
      <img src="icon.svg" alt="" />
      <h2>${t("welcome.title")}</h2>
      <p class="note">${t("welcome.text")}</p>
      <${Runs} />
    </div>`;
}

function PrivateWelcome() {
  return html`
    <div class="stack welcome">
      <${Icon} name="private" />
      <h2>${t("chat.private.title")}</h2>
      <p class="note">${t("chat.private.long")}</p>
      <${Runs} />
    </div>`;
}

/** The running model in the list, which is read again when another one runs. Undefined before. */
function useRunning() {
  const fingerprint = useStore(status, ({ now }) => now?.fingerprint);
  const list = useStore(models, ({ list }) => list);
  useEffect(() => {
    if (fingerprint) loadModels().catch(() => {}); // Without it, its name stands in the head.
  }, [fingerprint]);
  return list && { model: list.data.find(({ current }) => current), free: list.free_bytes };
}

function Runs() {
  const running = useRunning();
  if (!running?.model) return html`<p class="runs"></p>`;
  const { model, free } = running;
  if (model.id === DEMO) {
    return html`
      <p class="runs demo" data-test="demo">
        ${t("welcome.demo", { size: model.size_bytes })}${" "}
        <a href=${address("models", "first")}>${t("welcome.choose")}</a>
      </p>`;
  }
  const { estimate, name } = model;
  const needed = estimate && estimate.weights_bytes + estimate.kv_bytes;
  return html`
    <p class="runs" data-test="runs">
      <strong>${name}</strong>
      ${needed && free ? ` · ${t("welcome.fit", { needed: bytes(needed), free: bytes(free + estimate.weights_bytes) })}` : ""}
    </p>`;
}

/** Of the demo: what it can answer, sent at once. Of another model: beginnings to complete. */
export function Suggestions({ conversation }) {
  const running = useRunning();
  if (!running || isPrivate(conversation.id)) return null;
  const isDemo = running.model?.id === DEMO;
  const choose = (n) => {
    if (isDemo) return conversation.send(t(`suggest.demo.${n}`));
    conversation.write(t(`suggest.${n}.text`));
    const field = document.querySelector(".composer textarea");
    field.focus();
    return requestAnimationFrame(() => field.setSelectionRange(field.value.length, field.value.length));
  };
  return html`
    <div class="row suggestions">
      ${[1, 2, 3].map((n) => html`
        <${Button} onClick=${() => choose(n)}>${t(isDemo ? `suggest.demo.${n}` : `suggest.${n}`)}<//>`)}
    </div>`;
}
