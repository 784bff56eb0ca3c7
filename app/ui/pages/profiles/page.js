// Profiles: the list, and the editor of one.

import { address, api, every, go, html, shownName, t, useEffect, useState } from "/lib.js";
import { askText, Button, Icon } from "/parts.js";
import { Reading } from "/parts/reading.js";
import { useReading } from "/chat/daemon.js";
import { slugOf } from "./draft.js";
import { Editor } from "./editor.js";
import { Learned } from "./learned.js";
import { createDraft } from "./use-profile.js";
import { isBeingRead, Warmth } from "./warmth.js";

const WARM_POLL_MS = 1500;

/** `detail`: the name of the profile to edit; nothing for the list. */
export function Page({ detail }) {
  return detail ? html`<${Editor} key=${detail} name=${detail} />` : html`<${List} />`;
}

function List() {
  const [list, setList] = useState(null);
  const [error, setError] = useState(null);
  const receive = (list) => {
    setList(list);
    setError(null);
  };
  const read = () => api.get("/v1/profiles").then(receive, setError);
  useReading(read);
  const isWarming = list?.data.some(isBeingRead);
  useEffect(() => (isWarming ? every(WARM_POLL_MS, read) : undefined), [isWarming]);
  if (!list) return html`<${Reading} words=${t("profiles.reading")} error=${error} />`;
  return html`
    <div class="row apart">
      <p class="note grow">${t("profiles.what")} ${t("profiles.default.hint")}</p>
      <${Button} kind="primary" onClick=${() => create(list.data)} data-test="new-profile" icon="plus">
        ${t("profiles.new")}
      <//>
    </div>
    ${list.data.map((profile) => html`<${Row} key=${profile.name} profile=${profile} />`)}
    ${!list.data.length && html`
      <div class="card empty"><${Icon} name="profiles" /><p>${t("profiles.none")}</p></div>`}
    <p class="note">${t("profiles.where")} <code>${list.directory}</code></p>
    <${Learned} />`;
}

function Row({ profile }) {
  const { name, error, segments, tokens, kv_bytes, fell_back: why } = profile;
  const figures = { n: segments, tokens: tokens ?? 0, bytes: kv_bytes ?? 0 };
  return html`
    <a class="card stack profile-row" href=${address("profiles", name)} data-test="profile-row">
      <span class="row apart"><strong>${shownName(name)}</strong><${Warmth} profile=${profile} /></span>
      ${error
        ? html`<span class="error"><${Icon} name="warning" small /> ${error}</span>`
        : html`<span class="note figure">${t("profiles.figures", figures)}</span>`}
      ${why && html`
        <span class="note" title=${why} data-test="fell-back">
          <${Icon} name="warning" small /> ${t("profiles.exact")}
        </span>`}
    </a>`;
}

async function create(profiles) {
  const name = await askText({
    title: t("profiles.new"),
    label: t("profiles.name"),
    text: t("profiles.name.long"),
    yes: t("profiles.make"),
    check: (name) => problemOf(slugOf(name), profiles),
  });
  if (name === null) return;
  createDraft(slugOf(name));
  go("profiles", slugOf(name));
}

/** Why instructions cannot have this name; null where they can. */
function problemOf(slug, profiles) {
  if (!slug) return t("profiles.name.empty");
  const isTaken = profiles.some(({ name }) => name.toLowerCase() === slug.toLowerCase());
  return isTaken ? t("profiles.there") : null;
}
