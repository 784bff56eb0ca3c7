// The keys, as `?` shows them.

import { bound, createStore, html, t, useStore } from "/lib.js";
import { Dialog } from "./dialog.js";

export const help = createStore({ open: false });

export function Help() {
  const { open } = useStore(help);
  const close = () => help.set({ open: false });
  return open && html`<${Dialog} title=${t("keys.title")} toRead onClose=${close} test="help">
    <dl class="keys">${bound().map(({ keys, name }) => html`<dt>${t(name)}</dt><dd>${keys.map((key) => html`<kbd>${key}</kbd>`)}</dd>`)}
      <dt>${t("keys.send")}</dt><dd><kbd>Enter</kbd></dd>
      <dt>${t("keys.line")}</dt><dd><kbd>Shift</kbd><kbd>Enter</kbd></dd></dl>
  <//>`;
}
