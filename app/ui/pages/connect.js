// Shown to a browser without a token: how to open the page with one.

import { access, html, t, useRef } from "/lib.js";

export function Connect() {
  const field = useRef();
  const give = (event) => {
    event.preventDefault();
    if (field.current.value.trim()) access.give(field.current.value);
  };
  return html`
    <main class="welcome" data-test="connect">
      <img src="icon.svg" alt="" />
      <h1>${t("connect.title")}</h1>
      <p class="note">${t("connect.text")}</p>
      <p><code>hob open</code></p>
      <form class="row" onSubmit=${give}>
        <label class="field grow">
          <span>${t("connect.token")}</span>
          <input class="input" type="password" autocomplete="off" ref=${field} data-test="token" />
        </label>
        <button class="button primary">${t("connect.go")}</button>
      </form>
      <p class="note">${t("connect.where")}</p>
    </main>`;
}
