// Shown to a browser without a token: how to open the page with one.

import { access, html, t, useLayoutEffect, useRef } from "/lib.js";
import { Button, copy, Toasts } from "/parts.js";

const COMMAND = "hob open";

export function Connect() {
  const field = useRef();
  const isRefused = access.wasRefused();
  useLayoutEffect(() => {
    if (isRefused) field.current.focus();
  }, [isRefused]);
  const give = (event) => {
    event.preventDefault();
    if (field.current.value.trim()) access.give(field.current.value);
  };
  return html`
    <main class="connect" data-test="connect">
      <img src="icon.svg" alt="" />
      <h1>${t("connect.title")}</h1>
      <p class="note">${t("connect.text")}</p>
      <div class="command">
        <code>${COMMAND}</code>
        <${Button} icon="copy" onClick=${() => copy(COMMAND)}>${t("copy")}<//>
      </div>
      <form class="stack" onSubmit=${give}>
        <label class="field">
          <span>${t("connect.token")}</span>
          <input
            class="input"
            type="password"
            autocomplete="off"
            aria-invalid=${isRefused ? "true" : null}
            ref=${field}
            data-test="token"
          />
        </label>
        ${isRefused && html`<p class="error" role="alert" data-test="refused">${t("connect.refused")}</p>`}
        <button class="button primary">${t("connect.go")}</button>
        <p class="note">${t("connect.where")}</p>
      </form>
    </main>
    <${Toasts} />`;
}
