// The sampling parameters of a chat or of its instructions, and which KV the chat uses; loaded when they are first
// opened.

import { api, html, t, useState, useStore } from "/lib.js";
import { Button, Dialog, orToast } from "/parts.js";
import { draftOf, requestOf } from "/pages/profiles/draft.js";
import { refreshStatus, status } from "./chats.js";
import { KvChoice } from "./kv-choice.js";
import { PARAMETERS, presetOf, PRESETS, samplingOf } from "./sampling.js";

export function SamplingDialog({ conversation, profile, onClose }) {
  const [isOfProfile, setOfProfile] = useState(false);
  const { sampling: ofChat, beyond, reuse } = conversation.store.get();
  const [fields, setFields] = useState(ofChat);
  const [kv, setKv] = useState({ beyond, reuse });
  const [problem, setProblem] = useState(null);
  const ofModel = useStore(status, ({ now }) => now?.sampling) ?? {};
  // An engine at another address has KV of its own.
  const hasKv = useStore(status, ({ now }) => !now?.upstream);
  const inherited = { ...ofModel, ...(!isOfProfile && profile?.sampling) };
  const choose = (ofProfile) => {
    setOfProfile(ofProfile);
    setFields(ofProfile ? (profile.sampling ?? {}) : ofChat);
  };
  const sampling = samplingOf(fields);
  const save = async (event) => {
    event.preventDefault();
    const saved = isOfProfile ? saveProfile(profile.name, sampling) : conversation.setSampling(sampling);
    if ((await orToast(saved.then(() => true), setProblem)) !== true) return;
    if (!isOfProfile) conversation.setKv(kv);
    onClose();
  };
  const preset = presetOf(sampling);
  return html`
    <${Dialog} title=${t("sampling.title")} wide edits onClose=${onClose} test="sampling-dialog">
      <form class="stack" onSubmit=${save}>
        ${profile && html`
          <div class="row" role="radiogroup" aria-label=${t("sampling.for")}>
            ${[false, true].map((ofProfile) => html`
              <label>
                <input
                  type="radio"
                  name="for"
                  checked=${isOfProfile === ofProfile}
                  onChange=${() => choose(ofProfile)}
                />
                ${" "}${t(ofProfile ? "sampling.for.profile" : "sampling.for.chat", profile)}
              </label>`)}
          </div>`}
        <div class="row presets">
          ${Object.keys(PRESETS).map((name) => html`
            <${Button}
              aria-pressed=${preset === name}
              onClick=${() => setFields(PRESETS[name])}
              data-test=${`preset-${name}`}
            >
              ${t(`sampling.preset.${name}`)}
            <//>`)}
        </div>
        <p class="note">${t(preset ? `sampling.preset.${preset}.long` : "sampling.own.long")}</p>
        <div class="sampling-fields">
          ${PARAMETERS.map((parameter) => html`
            <${Field}
              key=${parameter.name}
              ...${parameter}
              standard=${inherited[parameter.name] ?? parameter.standard}
              ofModel=${ofModel[parameter.name]}
              value=${fields[parameter.name] ?? ""}
              onInput=${(value) => setFields({ ...fields, [parameter.name]: value })}
            />`)}
        </div>
        ${hasKv && !isOfProfile && html`<${KvChoice} chosen=${kv} onChange=${setKv} />`}
        ${problem && html`<p class="error" role="alert">${problem}</p>`}
        <div class="actions">
          <${Button} onClick=${onClose}>${t("cancel")}<//>
          <button class="button primary" data-test="save-sampling">${t("save")}</button>
        </div>
      </form>
    <//>`;
}

function Field({ name, standard, ofModel, value, onInput, ...range }) {
  return html`
    <label class="field" title=${t(`sampling.${name}.long`)}>
      <span>${t(`sampling.${name}`)}</span>
      <input
        class="input"
        type="number"
        name=${name}
        ...${range}
        step=${range.step < 1 ? "any" : 1}
        value=${value}
        placeholder=${standard ?? t(`sampling.${name}.none`)}
        onInput=${({ target }) => onInput(target.value)}
      />
      ${ofModel !== undefined && html`
        <span class="note">${t("sampling.model.standard", { value: ofModel })}</span>`}
    </label>`;
}

/** Sends the profile as it is, with other parameters. */
async function saveProfile(name, sampling) {
  const path = `/v1/profiles/${encodeURIComponent(name)}`;
  await api.put(path, { ...requestOf(draftOf(await api.get(path))), name: undefined, sampling });
  await refreshStatus();
}
