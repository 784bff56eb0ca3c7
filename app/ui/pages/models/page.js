// The models of this machine: what runs, what could, and what that would take.

import { address, api, classes, html, t, useEffect, useState, useStore } from "/lib.js";
import { Button, Icon } from "/parts.js";
import { status } from "/chat/chats.js";
import { Fit, facts } from "./fit.js";
import { FirstSteps } from "./first.js";
import { askToSwitch } from "./question.js";

export function Page({ detail }) {
  const [list, setList] = useState(null);
  const [error, setError] = useState(null);
  const { now, to } = useStore(status);
  const failure = now?.switch_error;
  const load = () => api.get("/v1/models/local").then((list) => {
    setList(list);
    setError(null);
  }, setError);
  useEffect(() => {
    if (to) setList(null);
    else load();
  }, [to]);
  if (to) return html`<${Switching} to=${to} percent=${now.loaded_percent ?? undefined} />`;
  if (error) return html`<div class="empty" role="alert"><${Icon} name="warning" /><p>${t("models.unread")}</p><p class="note">${error.message}</p>
    <${Button} onClick=${load}>${t("models.look")}<//></div>`;
  if (!list) return html`<p class="note" role="status">${t("models.looking")}</p>`;
  if (detail) return html`<${Failure} failure=${failure} list=${list} /><${FirstSteps} key=${detail} list=${list} begun=${detail === "hello"} />`;
  return html`<${Models} list=${list} failure=${failure} load=${load} />`;
}

function Switching({ to, percent }) {
  const title = t("models.switching", { name: to });
  return html`<section class="card stack" role="status"><h2>${title}</h2><progress max="100" value=${percent} aria-label=${title}></progress><p class="note">${t("models.switching.long")}</p></section>`;
}

/** Why another model does not run. */
function Failure({ failure, list }) {
  if (!failure) return null;
  const name = list.data.find(({ id }) => id === failure.model)?.name ?? failure.model;
  return html`<p class="card row notice error" role="alert"><${Icon} name="warning" /><span class="grow">${t("models.failed", { name, message: failure.message })}</span></p>`;
}

function Models({ list, failure, load }) {
  const running = list.data.find(({ current }) => current);
  const others = list.data.filter((model) => model !== running);
  return html`
    <${Failure} failure=${failure} list=${list} />
    ${list.fixed && html`<p class="card row notice"><${Icon} name="pin" /><span class="grow">${t("models.fixed", { by: list.fixed })}</span></p>`}
    ${running && html`<section class="stack"><h2>${t("models.running")}</h2><${Model} model=${running} list=${list} /></section>`}
    <section class="stack">
      <div class="row apart"><h2>${t("models.others")}</h2><span class="row">
        <a class="button" href=${address("models", "first")} data-test="first-steps">${t("models.first")}</a>
        <${Button} onClick=${load} icon="again">${t("models.look")}<//></span></div>
      ${others.map((model) => html`<${Model} key=${model.id} model=${model} list=${list} from=${running} />`)}
      ${!others.length && html`<div class="card empty"><${Icon} name="models" /><p>${t("models.none")}</p></div>`}
      <p class="note">${t("models.where")} <code>${list.directory}</code></p>
    </section>
    ${list.problems.length > 0 && html`<details class="card"><summary>${t("models.problems", { n: list.problems.length })}</summary>
      <ul class="problems">${list.problems.map((problem) => html`<li>${problem}</li>`)}</ul></details>`}`;
}

function Model({ model, list, from }) {
  return html`<article class=${classes("card stack model", model.current && "current")} data-test="model" data-id=${model.id}>
    <div class="row apart">
      <div class="grow"><h3>${model.name}</h3><p class="note">${facts(model)}</p></div>
      <span class="badge" title=${model.path}>${t(`models.source.${model.source}`)}</span>
    </div>
    <${Fit} model=${model} list=${list} />
    <div class="row apart"><span class="note">${kept(model)}</span>
      ${!model.current && html`<${Button} disabled=${Boolean(list.fixed)} title=${list.fixed ? t("models.fixed", { by: list.fixed }) : null}
        onClick=${() => askToSwitch(model, from)} data-test="run">${t("models.run")}<//>`}</div>
  </article>`;
}

function kept({ kept }) {
  if (!kept) return t("models.kept.unknown");
  if (!kept.conversations) return t("models.kept.none");
  return t("models.kept", { n: kept.conversations, bytes: kept.bytes });
}
