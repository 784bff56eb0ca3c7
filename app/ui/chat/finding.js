// Whether the chat is being searched. The bar is loaded when it is first opened.
//
// - Without the CSS Custom Highlight API, the browser's own search stays.

import { createStore, importModule, lazy, withTexts } from "/lib.js";

export const finding = createStore({ open: false, asked: 0 });

export const findBar = lazy(() => withTexts(importModule("/chat/find-bar.js")));

/** False where the browser searches. */
export function find() {
  if (!globalThis.CSS?.highlights || !document.querySelector(".talk-inner")) return false;
  finding.set(({ asked }) => ({ open: true, asked: asked + 1 }));
  return true;
}
