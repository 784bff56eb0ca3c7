// Where models of one's own belong: the folder's path, to copy; the app opens it in the file manager.

import { html, shell, t } from "/lib.js";
import { Button, copy, IconButton } from "/parts.js";

/** The shell opens its own models folder only: the daemon that it is attached to may have another one. */
const openFolder = (path) => shell.invoke("open_models_folder", { path }).catch(() => copy(path));

export const Directory = ({ path, text }) => html`
  <p class="note directory">
    <span>${text}</span>
    <span class="row">
      <code>${path}</code>
      ${shell && html`
        <${Button} onClick=${() => openFolder(path)} data-test="open-folder">${t("models.open-folder")}<//>`}
      <${IconButton} small icon="copy" label=${t("models.copy-path")} onClick=${() => copy(path)} />
    </span>
  </p>`;
