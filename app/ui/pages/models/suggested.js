// Three models that fit this machine: what each takes, how fast it would answer, and how to get it.

import { api, bytes, count, html, t, useRef, useState } from "/lib.js";
import { Icon, openLink, useNextFocus } from "/parts.js";
import { Reading } from "/parts/reading.js";
import { useReading } from "/chat/daemon.js";
import { Directory } from "./directory.js";
import { FetchControl, FetchFailure, useFetch } from "./fetching.js";

/** Slower than most people read, and as fast. */
const SLOW = 4;
const READING = 9;

/** `onFetched`: called with the file's name once a model was fetched. */
export function Suggested({ onFetched }) {
  const [suggested, setSuggested] = useState(null);
  const [error, setError] = useState(null);
  const read = () => api.get("/v1/models/suggested").then(setSuggested, setError);
  const fetching = useFetch(async () => {
    await read();
    onFetched();
  });
  useReading(read);
  if (!suggested) return html`<${Reading} words=${t("first.measuring")} error=${error} />`;
  const { data, directory } = suggested;
  const fetchable = data.find(({ fetch }) => fetch);
  return html`
    <section class="stack" data-test="suggested">
      <h2>${t("first.suggested")}</h2>
      <ul class="bare-list suggested">
        ${data.map((model) => html`
          <${Suggestion} key=${model.file_name} model=${model} fetching=${fetching} />`)}
      </ul>
      ${fetchable && html`
        <${FetchFailure} model=${fetchable} fetch=${fetching.fetch} directory=${directory} />`}
      <${Directory} path=${directory} text=${t("first.where")} />
      ${fetchable && !fetchable.here && html`<p class="note">${t("first.only")}</p>`}
    </section>`;
}

function Suggestion({ model, fetching }) {
  const { title, licence, size_bytes, kv_bytes, tokens_per_second: speed, verdict } = model;
  const card = useRef();
  useNextFocus(() => card.current.querySelector("button"));
  // Only the file that Hob fetches is known to the byte.
  const needs = t(model.fetch ? "first.needs" : "first.needs.about", {
    size: bytes(size_bytes),
    kv: bytes(kv_bytes),
    tokens: model.ctx,
  });
  return html`
    <li class="card" ref=${card} data-test="suggestion">
      <span class="grow">
        <strong>${title}</strong>
        <span class="note figure">${needs}</span>
        <span class="note figure">
          ${t(`first.speed.${pace(speed)}`, { speed: count(Math.max(1, Math.round(speed))) })}
          ${verdict === "tight" && ` · ${t("first.tight")}`}
          ${` · ${licence}`}
        </span>
      </span>
      <${Action} model=${model} fetching=${fetching} />
    </li>`;
}

function Action({ model, fetching }) {
  if (model.here) {
    return html`<span class="note row" data-test="is-here"><${Icon} name="check" small />${t("first.here")}</span>`;
  }
  if (model.fetch) return html`<${FetchControl} model=${model} fetching=${fetching} />`;
  return html`
    <a class="button" href=${model.page} onClick=${openLink} data-test="model-page">
      <${Icon} name="link" small />${t("first.page")}
    </a>`;
}

function pace(speed) {
  if (speed < SLOW) return "slow";
  return speed < READING ? "reading" : "fast";
}
