// Where models of one's own belong: the folder's path, to copy.

import { html, t } from "/lib.js";
import { copy, IconButton } from "/parts.js";

export const Directory = ({ path, text }) => html`
  <p class="note directory">
    <span>${text}</span>
    <span class="row">
      <code>${path}</code>
      <${IconButton} small icon="copy" label=${t("models.copy-path")} onClick=${() => copy(path)} />
    </span>
  </p>`;
