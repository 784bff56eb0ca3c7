// Icons: 24 x 24, one stroke, drawn in `index.html`. They decorate; the words are beside them or in a label.

import { html } from "/lib.js";

export function Icon({ name, small }) {
  return html`<svg class=${small ? "icon small" : "icon"} viewBox="0 0 24 24" aria-hidden="true"><use href="#icon-${name}" /></svg>`;
}
