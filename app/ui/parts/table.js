// Rows of figures as a table.

import { html, t, useState } from "/lib.js";

/**
 * `columns`: `[name, cell, as]`: the name of its string, what a row has there, and what it is shown as:
 * "figure", "when", "clip". The first one names its row.
 */
export function Table({ columns, rows }) {
  const cells = (row) => columns.map(([, cell, as], at) => (at ? html`<td class=${as}>${cell(row)}</td>` : html`<th scope="row" class=${as}>${cell(row)}</th>`));
  return html`<div class="scroll-x" tabindex="0"><table class="table">
    <thead><tr>${columns.map(([name, , as]) => html`<th class=${as === "figure" && as}>${t(name)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${cells(row)}</tr>`)}</tbody></table></div>`;
}

/** A table behind its title; made only when somebody opens it. `rows` is a function. */
export function FoldedTable({ title, columns, rows, test }) {
  const [open, setOpen] = useState(false);
  return html`<details class="fold-plain" onToggle=${(event) => setOpen(event.currentTarget.open)} data-test=${test}><summary>${title}</summary>
    ${open && html`<${Table} columns=${columns} rows=${rows()} />`}</details>`;
}
