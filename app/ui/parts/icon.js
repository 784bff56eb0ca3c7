// Icons: 24 x 24, one stroke, defined in `index.html`; hidden from screen readers.

import { html } from "/lib.js";

export function Icon({ name, small }) {
  return html`
    <svg class=${small ? "icon small" : "icon"} viewBox="0 0 24 24" aria-hidden="true">
      <use href="#icon-${name}" />
    </svg>`;
}
