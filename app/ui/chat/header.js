// The head of a chat: title, model, instructions, how full the context is, and whether the next answer
// begins at once.

import { classes, html, importModule, lazy, t, useEffect, useState, withTexts } from "/lib.js";
import { Icon, Menu, ShowSide } from "/parts.js";
import { actions } from "./actions.js";
import { isPrivate } from "./chats.js";
import { ContextRing } from "./context.js";
import { ModelPicker } from "./model-picker.js";
import { Ready } from "./ready.js";
import { Title } from "./title.js";

const panel = lazy(() => withTexts(importModule("/chat/instructions.js")));

/** `use`: of the context; null while unknown. `room`: whether the ways to make room are shown. */
export function Header({ conversation, state, chat, use, room, toggleRoom }) {
  const { id } = conversation;
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [id]);
  const module = panel.use(isOpen);
  const hasText = state.messages.length > 0;
  const isSet = Boolean(state.instructions || state.profile);
  const label = t(isSet ? "instructions.set" : "instructions.title");
  return html`
    <header class="page-head chat-head">
      <${ShowSide} />
      <${Title} key=${id} id=${id} chat=${chat} />
      <div class="chat-facts">
        ${isPrivate(id) && html`
          <span class="state" data-test="private" title=${t("chat.private.long")}>
            <${Icon} name="private" />${t("chat.private")}
          </span>`}
        <${ModelPicker} />
        <button
          type="button"
          class=${classes("fact", isSet && "set")}
          aria-expanded=${isOpen}
          aria-label=${label}
          title=${label}
          onClick=${() => setOpen(!isOpen)}
          data-test="instructions"
        >
          <${Icon} name="profiles" small /><span class="fact-text">${t("instructions.title")}</span>
          ${isSet && html`<${Icon} name="check" small />`}
        </button>
        ${use && html`<${ContextRing} use=${use} isOpen=${room} onClick=${toggleRoom} />`}
        ${use && hasText && !state.live && html`<${Ready} ...${use} />`}
      </div>
      ${chat && html`<${Menu} label=${t("chat.menu")} items=${actions(chat)} test="chat-menu" />`}
    </header>
    ${isOpen && module && html`
      <${module.Instructions}
        key=${id}
        conversation=${conversation}
        state=${state}
        title=${chat?.title}
        onClose=${() => setOpen(false)}
      />`}`;
}
