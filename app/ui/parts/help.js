// The list of the keyboard shortcuts.

import { bound, html, t } from "/lib.js";
import { Dialog } from "./dialog.js";

export function Help({ onClose }) {
  return html`
    <${Dialog} title=${t("keys.title")} toRead onClose=${onClose} test="help">
      <dl class="keys">
        ${bound().map(({ keys, name }) => html`<${Shortcut} name=${name} keys=${keys} />`)}
        <${Shortcut} name="keys.send" keys=${["Enter"]} />
        <${Shortcut} name="keys.line" keys=${["Shift", "Enter"]} />
        <${Shortcut} name="keys.scroll" keys=${["PageUp", "PageDown"]} />
      </dl>
    <//>`;
}

function Shortcut({ name, keys }) {
  return html`<dt>${t(name)}</dt><dd>${keys.map((key) => html`<kbd>${key}</kbd>`)}</dd>`;
}
