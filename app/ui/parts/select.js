import { html } from "/lib.js";

/** `options`: `[value, label, disabled]` each. `onChange` gets the value and the element. */
export function Select({ options, onChange, ...rest }) {
  return html`
    <select ...${rest} onChange=${({ target }) => onChange(target.value, target)}>
      ${options.map(([value, label, disabled]) => html`
        <option value=${value} disabled=${disabled}>${label}</option>`)}
    </select>`;
}
