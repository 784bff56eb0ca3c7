// The models of this machine: the one that runs, the others, and the memory that they need.

import { address, api, classes, html, t, useState, useStore } from "/lib.js";
import { Button, Icon, useNextFocus } from "/parts.js";
import { status } from "/chat/chats.js";
import { useReading } from "/chat/daemon.js";
import { Directory } from "./directory.js";
import { Fit, facts, fitOf } from "./fit.js";
import { FirstSteps } from "./first.js";
import { askToSwitch } from "./question.js";
import { changeSettings } from "/pages/settings/use-settings.js";

/** `detail`: "first" or "hello" for the first steps; nothing for the list. */
export function Page({ detail }) {
  const [list, setList] = useState(null);
  const [error, setError] = useState(null);
  const { now, switchingTo } = useStore(status);
  // The list leaves while another model is loaded.
  useNextFocus(() => null);
  const load = async () => {
    try {
      const list = await api.get("/v1/models/local");
      setList(list);
      setError(null);
      return list;
    } catch (error) {
      setError(error);
    }
  };
  useReading(() => {
    if (switchingTo) setList(null);
    else load();
  }, [switchingTo]);
  if (switchingTo) return html`<${Switching} name=${switchingTo} percent=${now.loaded_percent} />`;
  if (error) return html`<${Unreadable} error=${error} retry=${load} />`;
  if (!list) return html`<p class="note" role="status">${t("models.looking")}</p>`;
  return html`
    <${Failure} failure=${now?.switch_error} list=${list} />
    ${detail
      ? html`<${FirstSteps} key=${detail} list=${list} load=${load} begun=${detail === "hello"} />`
      : html`<${Models} list=${list} load=${load} />`}`;
}

function Switching({ name, percent }) {
  const title = t("models.switching", { name });
  return html`
    <section class="card stack" role="status">
      <h2>${title}</h2>
      <progress max="100" value=${percent ?? undefined} aria-label=${title}></progress>
      <p class="note">${t("models.switching.long")}</p>
    </section>`;
}

function Unreadable({ error, retry }) {
  return html`
    <div class="empty" role="alert">
      <${Icon} name="warning" />
      <p>${t("models.unread")}</p>
      <p class="note">${error.message}</p>
      <${Button} onClick=${retry}>${t("models.look")}<//>
    </div>`;
}

function Failure({ failure, list }) {
  if (!failure) return null;
  const name = list.data.find(({ id }) => id === failure.model)?.name ?? failure.model;
  return html`
    <p class="card row notice error" role="alert">
      <${Icon} name="warning" />
      <span class="grow">${t("models.failed", { name, message: failure.message })}</span>
    </p>`;
}

function Models({ list, load }) {
  const running = list.data.find(({ current }) => current);
  const others = list.data.filter((model) => model !== running);
  return html`
    ${list.fixed && html`
      <p class="card row notice">
        <${Icon} name="pin" />
        <span class="grow">${t("models.once", { by: list.fixed })}</span>
      </p>`}
    ${running && html`
      <section class="stack">
        <h2>${t("models.running")}</h2>
        <${Model} model=${running} list=${list} />
      </section>`}
    <section class="stack">
      <div class="row apart">
        <h2>${t("models.others")}</h2>
        <span class="row">
          <a class="button" href=${address("models", "first")} data-test="first-steps">
            ${t("models.first")}
          </a>
          <${Button} onClick=${load} icon="again">${t("models.look")}<//>
        </span>
      </div>
      ${others.map((model) => html`
        <${Model} key=${model.id} model=${model} list=${list} />`)}
      ${!others.length && html`
        <div class="card empty"><${Icon} name="models" /><p>${t("models.none")}</p></div>`}
      <${Directory} path=${list.directory} text=${t("models.where")} />
    </section>
    ${list.problems.length > 0 && html`<${Problems} problems=${list.problems} />`}`;
}

function Model({ model, list }) {
  const [ctx, setCtx] = useState(null);
  const chosen = ctx ?? model.ctx;
  const { verdict } = fitOf(model, list, chosen);
  const change = { ctx: chosen === model.ctx ? undefined : chosen, verdict };
  const act = model.current
    ? () => changeSettings({ ctx: chosen })
    : () => askToSwitch(model, list, change);
  return html`
    <article
      class=${classes("card stack model", model.current && "current")}
      data-test="model"
      data-id=${model.id}
    >
      <div class="row apart">
        <div class="grow"><h3>${model.name}</h3><p class="note">${facts(model)}</p></div>
        <span class="badge" title=${model.path}>${t(`models.source.${model.source}`)}</span>
      </div>
      <${Fit} model=${model} list=${list} ctx=${chosen} onContext=${setCtx} />
      <div class="row apart">
        <span class="note">${savedUnder(model)}</span>
        ${(!model.current || change.ctx) && html`
          <${Button} kind=${model.current && "primary"} onClick=${act} data-test="run">
            ${t(model.current ? "models.reload" : "models.run")}
          <//>`}
      </div>
    </article>`;
}

function savedUnder({ kept: saved }) {
  if (!saved) return t("models.saved.unknown");
  if (!saved.conversations) return t("models.saved.none");
  return t("models.saved", { n: saved.conversations, bytes: saved.bytes });
}

function Problems({ problems }) {
  return html`
    <details class="card">
      <summary>${t("models.problems", { n: problems.length })}</summary>
      <ul class="problems">${problems.map((problem) => html`<li>${problem}</li>`)}</ul>
    </details>`;
}
