// The instructions of a chat, in place: the chat's own, and the saved ones in front of them.

import { api, html, t, useRef, useState, useStore } from "/lib.js";
import { Button, orToast, Select, toast, useFitToText } from "/parts.js";
import { usePanel } from "/parts/panel.js";
import { slugOf } from "/pages/profiles/draft.js";
import { status } from "./chats.js";
import { visiblePath } from "./conversation.js";
import { profileChoices } from "./profile-choices.js";
import { countInstructions, textOf } from "./tree.js";

/** The texts of panels that were closed with neither Save nor Cancel, by their conversation. */
const unsaved = new WeakMap();

export function Instructions({ conversation, state, title, onClose }) {
  const before = ownInstructions(state);
  const [text, setText] = useState(unsaved.get(conversation) ?? before);
  const field = useRef();
  const panel = usePanel(onClose);
  useFitToText(field, [text]);
  const isChanged = text.trim() !== before.trim();
  const write = ({ target }) => {
    unsaved.set(conversation, target.value);
    setText(target.value);
  };
  const close = () => {
    unsaved.delete(conversation);
    onClose();
  };
  const save = async () => {
    if (isChanged && !(await orToast(conversation.setInstructions(text.trim())))) return;
    close();
  };
  const saveForAll = async () => {
    const name = await orToast(saveAsProfile(text.trim(), title));
    if (!name) return;
    conversation.setProfile(name);
    await orToast(conversation.setInstructions(""));
    toast(t("instructions.saved", { name }));
    close();
  };
  return html`
    <section
      class="instructions"
      aria-label=${t("instructions.title")}
      ...${panel}
      data-test="instructions-panel"
    >
      <div class="stack composer-inner">
        <label class="field">
          <span>${t("instructions.own")}</span>
          <textarea
            class="input"
            dir="auto"
            rows="3"
            value=${text}
            placeholder=${t("instructions.placeholder")}
            ref=${field}
            onInput=${write}
            data-test="instructions-text"
          ></textarea>
        </label>
        <${SavedChoice} profile=${state.profile} onChange=${conversation.setProfile} />
        <p class="note">${t(state.messages.length ? "instructions.cost" : "instructions.long")}</p>
        <div class="row">
          <${Button} kind="primary" onClick=${save} data-test="instructions-save">${t("save")}<//>
          <${Button} disabled=${!text.trim()} onClick=${saveForAll} title=${t("instructions.save-as.long")}
            data-test="instructions-save-as">${t("instructions.save-as")}<//>
          <${Button} onClick=${close} data-test="instructions-cancel">${t("cancel")}<//>
        </div>
      </div>
    </section>`;
}

function SavedChoice({ profile, onChange }) {
  const profiles = useStore(status, ({ now }) => now?.profiles) ?? [];
  if (!profiles.length && !profile) return null;
  const { options, chosen } = profileChoices(profiles, profile);
  return html`
    <label class="row">
      <span class="label">${t("instructions.saved-ones")}</span>
      <${Select} value=${chosen} options=${options} onChange=${onChange} data-test="profile" />
    </label>`;
}

/** Those that were set here, or else the system messages with which the chat begins. */
function ownInstructions(state) {
  if (state.instructions !== null) return state.instructions;
  const path = visiblePath(state);
  return path.slice(0, countInstructions(path)).map(textOf).join("\n\n");
}

const MAX_NAME_LETTERS = 40;

/** Saves a text for other chats. Resolves to its name. */
async function saveAsProfile(text, title) {
  const { data } = await api.get("/v1/profiles");
  const names = new Set(data.map(({ name }) => name));
  const slug = slugOf((title ?? text).toLowerCase().slice(0, MAX_NAME_LETTERS)) || "instructions";
  let name = slug;
  for (let n = 2; names.has(name); n += 1) name = `${slug}-${n}`;
  const segments = [{ layer: "identity", source: "text", content: text, stable: true }];
  await api.put(`/v1/profiles/${name}`, { revision: null, ttl: "extended", segments });
  return name;
}
