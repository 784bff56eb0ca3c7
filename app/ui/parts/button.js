// Buttons: with words, or an icon whose label a pointer shows.

import { classes, html } from "/lib.js";
import { Icon } from "./icon.js";

export function Button({ kind, icon, children, ...rest }) {
  return html`<button type="button" ...${rest} class=${classes("button", kind)}>${icon && html`<${Icon} name=${icon} small />`}${children}</button>`;
}

export function IconButton({ icon, label, small, ...rest }) {
  const names = classes("icon-button", small && "small", rest.class);
  return html`<button type="button" ...${rest} class=${names} aria-label=${label} title=${label}><${Icon} name=${icon} /></button>`;
}
