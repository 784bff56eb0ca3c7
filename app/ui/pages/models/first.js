// The first steps: choose a model, see what it takes, say hello.

import { classes, go, html, t, useState } from "/lib.js";
import { Button } from "/parts.js";
import { newTalk } from "/chat/talk.js";
import { Fit, facts } from "./fit.js";
import { consequences } from "./question.js";
import { switchTo } from "./switching.js";

const STEPS = ["choose", "see", "hello"];

/** `begun`: the model was chosen before. */
export function FirstSteps({ list, begun }) {
  const usable = list.data.filter(({ pooling }) => !pooling);
  const running = usable.find(({ current }) => current);
  const [step, setStep] = useState(begun ? 2 : 0);
  const [chosen, setChosen] = useState((running ?? usable[0])?.id);
  const model = usable.find(({ id }) => id === chosen);
  const start = async () => {
    if (model.current) setStep(2);
    else if (await switchTo(model, model.verdict === "too_large")) go("models", "hello");
  };
  const hello = () => {
    const talk = newTalk();
    go("chat", talk.id);
    talk.send(t("suggest.3"));
  };
  const body = {
    choose: () => html`<fieldset class="stack"><legend class="hidden-text">${t("first.choose")}</legend>
      ${usable.map((one) => html`<label class=${classes("choice", one.id === chosen && "chosen")}>
        <input type="radio" name="model" value=${one.id} checked=${one.id === chosen} onChange=${() => setChosen(one.id)} />
        <span class="grow"><strong>${one.name}</strong><br /><span class="note">${t(`models.source.${one.source}`)}${facts(one) && ` · ${facts(one)}`}</span></span>
      </label>`)}</fieldset>`,
    see: () => html`<div class="stack"><h3>${model.name}</h3><${Fit} model=${model} list=${list} />
      ${!model.current && consequences(model, running).map((line) => html`<p class="note">${line}</p>`)}
      ${!model.current && list.fixed && html`<p class="error">${t("models.fixed", { by: list.fixed })}</p>`}</div>`,
    hello: () => html`<p>${t("first.hello.long", { name: running?.name })}</p>`,
  }[STEPS[step]];
  const blocked = step === 1 && !model.current && list.fixed;
  const next = [() => setStep(1), start, hello][step];
  return html`<section class="card stack first" data-test="first">
    <ol class="steps">${STEPS.map((name, index) => html`<li aria-current=${index === step ? "step" : null}>${t(`first.${name}`)}</li>`)}</ol>
    ${body()}
    <div class="row apart">
      ${step > 0 ? html`<${Button} onClick=${() => setStep(step - 1)}>${t("first.back")}<//>` : html`<span></span>`}
      <${Button} kind="primary" disabled=${!model || blocked} onClick=${next} data-test="first-next">${t(["first.next", model?.current ? "first.next" : "models.run", "first.say"][step])}<//>
    </div>
  </section>`;
}
