import { html, t, useState } from "/lib.js";

/** `columns`: `[name, cell, style]` each; `name` is the header's string, `style` a class. It scrolls, with the keyboard
    too; `label` names that stop. */
export function Table({ label, columns, rows }) {
  return html`
    <div class="scroll-x" role="group" aria-label=${label} tabindex="0">
      <table class="table">
        <thead>
          <tr>
            ${columns.map(([name, , style]) => html`
              <th class=${style === "figure" && style}>${t(name)}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map((row) => html`<tr>${cells(columns, row)}</tr>`)}
        </tbody>
      </table>
    </div>`;
}

function cells([header, ...others], row) {
  const [, name, style] = header;
  return [
    html`<th scope="row" class=${style} dir="auto">${name(row)}</th>`,
    ...others.map(([, cell, style]) => html`<td class=${style}>${cell(row)}</td>`),
  ];
}

/** A collapsed table. `rows` is a function, called only while the table is open. */
export function FoldedTable({ title, columns, rows, test }) {
  const [open, setOpen] = useState(false);
  const toggled = (event) => setOpen(event.currentTarget.open);
  return html`
    <details class="fold-plain" onToggle=${toggled} data-test=${test}>
      <summary>${title}</summary>
      ${open && html`<${Table} label=${title} columns=${columns} rows=${rows()} />`}
    </details>`;
}
