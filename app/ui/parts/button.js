// Buttons that are an icon; what they do is in their label, which a pointer shows.

import { classes, html } from "../lib/dom.js";
import { Icon } from "./icon.js";

export function IconButton({ icon, label, small, on, ...rest }) {
  const names = classes("icon-button", small && "small", on && "on", rest.class);
  return html`<button type="button" ...${rest} class=${names} aria-label=${label} title=${label}><${Icon} name=${icon} /></button>`;
}
