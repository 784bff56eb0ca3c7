// Where one writes. Whoever comes here brings the chat's KV back, before the first word is sent.

import { html, useEffect, useLayoutEffect, useRef } from "../lib/dom.js";
import { useStore } from "../lib/store.js";
import { t } from "../lib/strings.js";
import { Button } from "../parts/button.js";
import { Icon } from "../parts/icon.js";
import { Talk } from "../parts/talk.js";
import { chatOf, status, warm } from "./chats.js";

export function Composer({ talk }) {
  const field = useRef();
  const { draft: text, live, profile } = useStore(talk.store);
  const profiles = useStore(status, ({ now }) => now?.profiles) ?? [];
  useEffect(() => field.current.focus({ preventScroll: true }), []);
  useLayoutEffect(() => {
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight}px`;
  }, [text]);
  const wake = () => chatOf(talk.id) && warm(talk.id, profile);
  const send = () => {
    const said = text.trim();
    if (!said || live) return;
    talk.write("");
    talk.send(said);
  };
  const keys = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  const input = (event) => {
    talk.write(event.target.value);
    wake();
  };
  return html`<div class="composer"><div class="composer-inner">
    <div class="composer-box">
      <textarea ref=${field} rows="1" value=${text} placeholder=${t("composer.placeholder")} aria-label=${t("composer.label")}
        data-test="composer" onInput=${input} onKeyDown=${keys} onFocus=${wake}></textarea>
      <${Talk} id=${talk.id} profile=${profile} disabled=${Boolean(live)} send=${talk.send} write=${() => field.current.focus()} />
      ${live
        ? html`<${Button} kind="primary" aria-label=${t("composer.stop")} title=${t("composer.stop")} data-test="stop" onClick=${talk.stop}><${Icon} name="stop" /><//>`
        : html`<${Button} kind="primary" aria-label=${t("composer.send")} title=${t("composer.send")} data-test="send" disabled=${!text.trim()} onClick=${send}><${Icon} name="send" /><//>`}
    </div>
    <div class="composer-foot">
      ${(profiles.length > 0 || profile) && html`<label>${t("composer.profile")}
        <select value=${profile} onChange=${(event) => talk.setProfile(event.target.value)} data-test="profile">
          <option value="">${t("composer.profile.none")}</option>
          ${profiles.map(({ name }) => html`<option value=${name}>${name}</option>`)}
        </select></label>`}
      <span class="grow"></span>
      <span>${t("composer.hint")}</span>
    </div>
  </div></div>`;
}
