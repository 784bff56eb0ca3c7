// Buttons: with text, or with an icon whose label is its tooltip.

import { classes, html } from "/lib.js";
import { Icon } from "./icon.js";

export function Button({ kind, icon, children, ...rest }) {
  return html`
    <button type="button" ...${rest} class=${classes("button", kind)}>
      ${icon && html`<${Icon} name=${icon} small />`}${children}
    </button>`;
}

export function IconButton({ icon, label, small, ...rest }) {
  return html`
    <button
      type="button"
      ...${rest}
      class=${classes("icon-button", small && "small", rest.class)}
      aria-label=${label}
      title=${label}
    >
      <${Icon} name=${icon} />
    </button>`;
}
