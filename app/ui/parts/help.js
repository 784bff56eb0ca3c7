import { bound, createStore, html, t, useStore } from "/lib.js";
import { Dialog } from "./dialog.js";

export const help = createStore({ open: false });

export function Help() {
  const { open } = useStore(help);
  if (!open) return null;
  const close = () => help.set({ open: false });
  return html`
    <${Dialog} title=${t("keys.title")} toRead onClose=${close} test="help">
      <dl class="keys">
        ${bound().map(({ keys, name }) => html`<${Shortcut} name=${name} keys=${keys} />`)}
        <${Shortcut} name="keys.send" keys=${["Enter"]} />
        <${Shortcut} name="keys.line" keys=${["Shift", "Enter"]} />
      </dl>
    <//>`;
}

function Shortcut({ name, keys }) {
  return html`<dt>${t(name)}</dt><dd>${keys.map((key) => html`<kbd>${key}</kbd>`)}</dd>`;
}
