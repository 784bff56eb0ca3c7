// Short messages at the bottom of the page, each with at most one action.
//
// - An equal message is shown once, with its count. Those without an action leave when the page changes.
// - One with the pointer or the focus on it stays: its action takes time to read and to reach.

import { createStore, html, isCancelled, route, t, useStore } from "/lib.js";

const SHOWN_MS = 8000;
const MAX_TOASTS = 3;
const store = createStore({ toasts: [] });
let lastId = 0;

export function toast(text, action) {
  const id = ++lastId;
  let timer;
  const hold = () => clearTimeout(timer);
  const dismiss = () => {
    hold();
    store.set(({ toasts }) => ({ toasts: toasts.filter((other) => other.id !== id) }));
  };
  const release = () => {
    hold();
    timer = setTimeout(dismiss, SHOWN_MS);
  };
  store.set(({ toasts }) => {
    const same = !action && toasts.find((other) => other.text === text && !other.action);
    const others = toasts.filter((other) => other !== same);
    const times = same ? same.times + 1 : 1;
    return { toasts: [...others.slice(1 - MAX_TOASTS), { id, text, action, times, dismiss, hold, release }] };
  });
  release();
}

let shownPage = route.get().page;
route.subscribe(({ page }) => {
  if (page === shownPage) return;
  shownPage = page;
  store.set(({ toasts }) => ({ toasts: toasts.filter(({ action }) => action) }));
});

/** The promise's value; undefined after a failure, which `show` shows. A toast stands behind an open dialog. */
export async function orToast(promise, show = toast) {
  try {
    return await promise;
  } catch (error) {
    if (!isCancelled(error)) show(error.message);
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

function Toast({ text, action, times, dismiss, hold, release }) {
  const act = () => {
    dismiss();
    action.act();
  };
  const releaseUnless = (held) => ({ currentTarget: frame }) => frame.matches(held) || release();
  return html`
    <div
      class="toast"
      onMouseEnter=${hold}
      onMouseLeave=${releaseUnless(":focus-within")}
      onFocusIn=${hold}
      onFocusOut=${releaseUnless(":hover")}
      data-test="toast"
    >
      <span class="grow">${text}${times > 1 && html`<span class="figure"> × ${times}</span>`}</span>
      ${action && html`<button type="button" onClick=${act}>${action.label}</button>`}
      <button type="button" class="toast-close" aria-label=${t("close")} onClick=${dismiss}>×</button>
    </div>`;
}
