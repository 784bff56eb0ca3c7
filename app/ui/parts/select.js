// One of a few things.

import { html } from "/lib.js";

/** `options`: `[value, shown, disabled]` of each. `onChange` gets the value, and the element. */
export const Select = ({ options, onChange, ...rest }) => html`<select ...${rest} onChange=${({ target }) => onChange(target.value, target)}>
  ${options.map(([value, shown, disabled]) => html`<option value=${value} disabled=${disabled}>${shown}</option>`)}</select>`;
