// Where one writes. Whoever comes here brings the chat's KV back, before the first word is sent.

import { html, t, useEffect, useLayoutEffect, useRef, useStore } from "/lib.js";
import { Button, Icon, Select } from "/parts.js";
import { PushToTalk } from "./push-to-talk.js";
import { chatOf, chats, status, warm } from "./chats.js";

export function Composer({ talk }) {
  const field = useRef();
  const { draft: text, live, profile } = useStore(talk.store);
  const profiles = useStore(status, ({ now }) => now?.profiles) ?? [];
  useLayoutEffect(() => field.current.focus({ preventScroll: true }), []); // Before the next key.
  useLayoutEffect(() => {
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight}px`;
  }, [text]);
  const isKnown = useStore(chats, () => Boolean(chatOf(talk.id)));
  const wake = () => isKnown && warm(talk.id, profile);
  // Where the page begins with a chat, the focus is here before the list is.
  useEffect(() => void (document.activeElement === field.current && wake()), [isKnown]);
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
  const doing = live ? "stop" : "send";
  const label = t(`composer.${doing}`);
  return html`<div class="composer"><div class="composer-inner">
    <div class="composer-box">
      <textarea ref=${field} rows="1" value=${text} placeholder=${t("composer.placeholder")} aria-label=${t("composer.label")}
        data-test="composer" onInput=${input} onKeyDown=${keys} onFocus=${wake}></textarea>
      <${PushToTalk} id=${talk.id} profile=${profile} disabled=${Boolean(live)} send=${talk.send} write=${() => field.current.focus()} />
      <${Button} kind="primary" aria-label=${label} title=${label} data-test=${doing} disabled=${!live && !text.trim()} onClick=${live ? talk.stop : send}><${Icon} name=${doing} /><//>
    </div>
    <div class="row composer-foot">
      ${(profiles.length > 0 || profile) && html`<label>${t("composer.profile")}
        <${Select} value=${profile} options=${[["", t("composer.profile.none")], ...profiles.map(({ name }) => [name, name])]} onChange=${talk.setProfile} data-test="profile" /></label>`}
      <span class="grow"></span>
      <span>${t("composer.hint")}</span>
    </div>
  </div></div>`;
}
