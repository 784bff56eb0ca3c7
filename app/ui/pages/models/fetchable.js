// A real model that one command fetches, where it is not here yet. Hob itself downloads nothing.

import { html, t } from "/lib.js";
import { Button, copy, IconButton } from "/parts.js";

export function Fetchable({ list, load }) {
  const { fetchable } = list;
  if (!fetchable) return null;
  const { title, bytes, licence, command } = fetchable;
  return html`
    <div class="card stack" data-test="fetchable">
      <p>${t("models.fetch", { title, bytes, licence })}</p>
      <div class="row apart">
        <span class="row">
          <code>${command}</code>
          <${IconButton} small icon="copy" label=${t("copy")} onClick=${() => copy(command)} />
        </span>
        <${Button} onClick=${load} icon="again">${t("models.look")}<//>
      </div>
    </div>`;
}
