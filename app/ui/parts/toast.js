// Short messages at the bottom of the page, each with at most one action.

import { createStore, html, isCancelled, useStore } from "/lib.js";

const SHOWN_MS = 8000;
const MAX_TOASTS = 3;
const store = createStore({ toasts: [] });
let lastId = 0;

export function toast(text, action) {
  const id = ++lastId;
  const dismiss = () => {
    store.set(({ toasts }) => ({ toasts: toasts.filter((other) => other.id !== id) }));
  };
  store.set(({ toasts }) => ({
    toasts: [...toasts.slice(1 - MAX_TOASTS), { id, text, action, dismiss }],
  }));
  setTimeout(dismiss, SHOWN_MS);
}

/** The promise's value; undefined after a failure, which a toast shows. */
export async function orToast(promise) {
  try {
    return await promise;
  } catch (error) {
    if (!isCancelled(error)) toast(error.message);
    return undefined;
  }
}

export function Toasts() {
  const toasts = useStore(store, ({ toasts }) => toasts);
  return html`
    <div class="toasts" role="status" aria-live="polite">
      ${toasts.map((one) => html`<${Toast} key=${one.id} ...${one} />`)}
    </div>`;
}

function Toast({ text, action, dismiss }) {
  const act = () => {
    dismiss();
    action.act();
  };
  return html`
    <div class="toast" data-test="toast">
      ${text}${action && html`<button type="button" onClick=${act}>${action.label}</button>`}
    </div>`;
}
