// Profiles: what the prompts of one kind of conversation begin with. The list of them, and one that is
// edited.

import { address, api, go, html, t, useEffect, useState } from "/lib.js";
import { askText, Button, Icon, say } from "/parts.js";
import { begin, isNamed } from "./draft.js";
import { Editor } from "./editor.js";
import { Warmth } from "./warmth.js";

export function Page({ detail }) {
  return detail ? html`<${Editor} key=${detail} name=${detail} />` : html`<${List} />`;
}

function List() {
  const [list, setList] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => void api.get("/v1/profiles").then(setList, setError), []);
  if (error) return html`<p class="error" role="alert">${error.message}</p>`;
  if (!list) return html`<p class="note" role="status">${t("profiles.reading")}</p>`;
  const create = async () => {
    const name = await askText({ title: t("profiles.new"), label: t("profiles.name"), text: t("profiles.name.long"), yes: t("profiles.make") });
    if (name === null) return;
    if (!isNamed(name)) return say(t("profiles.name.long"));
    if (list.data.some((profile) => profile.name === name)) return say(t("profiles.there", { name }));
    begin(name);
    go("profiles", name);
  };
  return html`
    <div class="row apart"><p class="note grow">${t("profiles.what")}</p>
      <${Button} kind="primary" onClick=${create} data-test="new-profile" icon="plus">${t("profiles.new")}<//></div>
    ${list.data.map((profile) => html`<a key=${profile.name} class="card stack profile-row" href=${address("profiles", profile.name)} data-test="profile-row">
      <span class="row apart"><strong>${profile.name}</strong><${Warmth} profile=${profile} /></span>
      ${profile.error
        ? html`<span class="error"><${Icon} name="warning" small /> ${profile.error}</span>`
        : html`<span class="note figure">${t("profiles.figures", { n: profile.segments, tokens: profile.tokens ?? 0, bytes: profile.kv_bytes ?? 0 })}</span>`}
    </a>`)}
    ${!list.data.length && html`<div class="card empty"><${Icon} name="profiles" /><p>${t("profiles.none")}</p></div>`}
    <p class="note">${t("profiles.where")} <code>${list.directory}</code></p>`;
}
