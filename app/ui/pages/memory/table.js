// The map as a table: runs of blocks that are alike. Made only when somebody opens it.

import { html, useState } from "../../lib/dom.js";
import { count } from "../../lib/format.js";
import { t } from "../../lib/strings.js";
import { nameOf, partOf } from "./words.js";

export function BlockTable({ slots }) {
  const [open, setOpen] = useState(false);
  return html`<details class="fold-plain" onToggle=${(event) => setOpen(event.currentTarget.open)} data-test="map-table">
    <summary>${t("map.table")}</summary>
    ${open && html`<div class="scroll-x" tabindex="0"><table class="table"><thead><tr>
      <th>${t("left.who")}</th><th class="figure">${t("map.table.blocks")}</th><th class="figure">${t("left.tokens")}</th><th>${t("map.table.part")}</th><th>${t("map.table.origin")}</th><th class="figure">${t("map.table.sharers")}</th></tr></thead>
      <tbody>${slots.flatMap((slot) => runs(slot.blocks).map((run, index) => html`<tr key=${`${slot.slot}-${run.start}`}>
        ${index === 0 ? html`<th scope="row" class="clip">${nameOf(slot)}</th>` : html`<td></td>`}
        <td class="figure">${count(run.blocks)}</td><td class="figure">${count(run.start)}–${count(run.end)}</td>
        <td>${partOf(run.layer, run.key)}</td><td>${t(`origin.${run.origin}`)}</td><td class="figure">${count(run.sharers)}</td></tr>`))}</tbody></table></div>`}
  </details>`;
}

/** Neighbours that differ in nothing but their place, as one. */
export function runs(blocks) {
  const all = [];
  for (const { start, end, layer, key, origin, sharers } of blocks) {
    const last = all.at(-1);
    if (last && last.layer === layer && last.key === key && last.origin === origin && last.sharers === sharers) {
      last.end = end;
      last.blocks += 1;
    } else all.push({ start, end, layer, key, origin, sharers, blocks: 1 });
  }
  return all;
}
