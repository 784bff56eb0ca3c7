// In the place of what a page has not read yet.

import { html } from "/lib.js";

/** `words`: while it is being read. `error`: of the last try; null without one. */
export const Reading = ({ words, error }) => error
  ? html`<p class="error" role="alert">${error.message}</p>`
  : html`<p class="note" role="status">${words}</p>`;
