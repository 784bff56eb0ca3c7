// The first steps: choose a model, see its memory needs, send the first message.

import { classes, go, html, t, useState, useStore } from "/lib.js";
import { Button, useNextFocus } from "/parts.js";
import { status } from "/chat/chats.js";
import { newConversation } from "/chat/conversation.js";
import { Fit, facts, fitOf } from "./fit.js";
import { consequences } from "./question.js";
import { Suggested } from "./suggested.js";
import { switchTo } from "./switching.js";

const STEPS = ["choose", "see", "hello"];

/** `begun`: the model has been chosen and runs, so the last step is left. */
export function FirstSteps({ list, begun, load }) {
  const usable = list.data.filter(({ pooling }) => !pooling);
  const running = usable.find(({ current }) => current);
  const { now } = useStore(status);
  const [step, setStep] = useState(begun ? "hello" : "choose");
  const [chosenId, setChosenId] = useState((running ?? usable[0])?.id);
  const [ctx, setCtx] = useState(null);
  // The first step has no button that leads back.
  useNextFocus(() => document.querySelector("[data-test=first-next]"));
  const model = usable.find(({ id }) => id === chosenId);
  const chosen = ctx ?? model?.ctx;
  const choose = (id) => {
    setChosenId(id);
    setCtx(null);
  };
  const chooseFetched = async () => {
    const found = await load();
    const fetched = found?.data.find(({ id }) => !usable.some((known) => known.id === id));
    if (fetched) choose(fetched.id);
  };
  const run = async () => {
    if (model.current) return setStep("hello");
    const force = fitOf(model, list, chosen).verdict === "too_large";
    const changed = chosen === model.ctx ? undefined : chosen;
    if (await switchTo(model, { ctx: changed, force })) go("models", "hello");
  };
  const sayHello = () => {
    const conversation = newConversation();
    go("chat", conversation.id);
    conversation.send(t("suggest.demo.3"));
  };
  const bodies = {
    choose: () => html`
      <${Choices} usable=${usable} chosenId=${chosenId} choose=${choose} />
      <${Suggested} onFetched=${chooseFetched} />`,
    see: () => html`
      <${Needs} model=${model} running=${running} list=${list} ctx=${chosen} onContext=${setCtx} />`,
    hello: () => html`<p>${helloWords(running?.name, now)}</p>`,
  };
  const actions = {
    choose: { label: t("first.next"), act: () => setStep("see") },
    see: { label: t(model?.current ? "first.next" : "models.run"), act: run },
    hello: { label: t("first.say"), act: sayHello },
  };
  const { label, act } = actions[step];
  const before = STEPS[STEPS.indexOf(step) - 1];
  return html`
    <section class="card stack first" data-test="first">
      <ol class="bare-list steps">
        ${STEPS.map((name) => html`
          <li aria-current=${name === step ? "step" : null}>${t(`first.${name}`)}</li>`)}
      </ol>
      ${bodies[step]()}
      <div class="row apart">
        ${before
          ? html`<${Button} onClick=${() => setStep(before)}>${t("first.back")}<//>`
          : html`<span></span>`}
        <${Button} kind="primary" disabled=${!model} onClick=${act} data-test="first-next">
          ${label}
        <//>
      </div>
    </section>`;
}

/** Who answers, and where a message goes. `now`: the status. */
function helloWords(name, now) {
  if (now?.upstream) return t("first.hello.upstream", { url: now.upstream.url });
  if (now?.shared) return t("first.hello.shared", { name, place: now.shared.place });
  return t("first.hello.long", { name });
}

function Choices({ usable, chosenId, choose }) {
  return html`
    <fieldset class="stack">
      <legend class="hidden-text">${t("first.choose")}</legend>
      ${usable.map((model) => html`
        <label class=${classes("choice", model.id === chosenId && "chosen")}>
          <input
            type="radio"
            name="model"
            value=${model.id}
            checked=${model.id === chosenId}
            onChange=${() => choose(model.id)}
          />
          <span class="grow">
            <strong>${model.name}</strong>
            ${model.source === "bundled" && html`${" "}<span class="badge">${t("demo.badge")}</span>`}
            <br />
            <span class="note">
              ${[t(`models.source.${model.source}`), facts(model)].filter(Boolean).join(" · ")}
            </span>
          </span>
        </label>`)}
    </fieldset>`;
}

function Needs({ model, running, list, ctx, onContext }) {
  const { verdict } = fitOf(model, list, ctx);
  return html`
    <div class="stack">
      <h2>${model.name}</h2>
      <${Fit} model=${model} list=${list} ctx=${ctx} onContext=${model.current ? null : onContext} />
      ${!model.current && consequences({ ...model, verdict }, running, list.fixed).map((line) => html`
        <p class="note">${line}</p>`)}
    </div>`;
}
