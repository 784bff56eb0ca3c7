// Short messages at the bottom, each with at most one thing to do. Screen readers say them.

import { createStore, html, isCancelled, useStore } from "/lib.js";

const SHOWN_MS = 8000;
const store = createStore({ toasts: [] });
let last = 0;

/** Says something; `action`: `{ label, act }`. */
export function say(text, action) {
  const id = ++last;
  const dismiss = () => store.set(({ toasts }) => ({ toasts: toasts.filter((toast) => toast.id !== id) }));
  store.set(({ toasts }) => ({ toasts: [...toasts.slice(-2), { id, text, action, dismiss }] }));
  setTimeout(dismiss, SHOWN_MS);
}

/** What a promise comes to; what it fails with is said, and nothing comes of it. */
export const told = (promise) => promise.catch((error) => void (isCancelled(error) || say(error.message)));

export function Toasts() {
  const toasts = useStore(store, ({ toasts }) => toasts);
  return html`<div class="toasts" role="status" aria-live="polite">${toasts.map(({ id, text, action, dismiss }) => {
    const act = () => {
      dismiss();
      action.act();
    };
    return html`<div class="toast" key=${id} data-test="toast">${text}${action && html`<button type="button" onClick=${act}>${action.label}</button>`}</div>`;
  })}</div>`;
}
