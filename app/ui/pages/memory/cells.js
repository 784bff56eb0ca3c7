// The map of the hot cache: a row for each slot, a cell for each block.
//
// - A cell's colour and pattern tell what the block is for, its mark how it came here, its width how long
//   it is. The same is in words: under the pointer, at the keyboard, and in a table.

import { address, ago, classes, count, html, pure, t, useEffect, useState } from "/lib.js";
import { FoldedTable } from "/parts.js";
import { BLOCKS, runs } from "./blocks.js";
import { Strip } from "./strip.js";
import { families, nameOf, origins, reading } from "./words.js";

export function Cells({ map }) {
  const rows = map?.slots.filter(({ tokens, state }) => tokens > 0 || state !== "free") ?? [];
  const free = (map?.slots ?? []).filter(({ kind }) => kind === "conversation").length - rows.filter(({ kind }) => kind === "conversation").length;
  return html`<section class="card stack" data-test="memory-map">
    <div class="row apart"><h2>${t("map.title")}</h2>
      ${map && html`<span class="note figure">${t("map.used", { used: map.used_tokens, all: map.context_tokens })}</span>`}</div>
    ${!map ? reading() : html`
      ${rows.length === 0 && html`<div class="empty"><p>${t("map.empty")}</p></div>`}
      ${rows.length > 0 && html`<${Legend} /><div class="stack">${rows.map((slot) => html`<${Row} key=${slot.slot} ...${slot} block_tokens=${map.block_tokens} />`)}</div>
        <p class="note">${t("map.free", { n: free })}</p>
        <${FoldedTable} title=${t("map.table")} columns=${BLOCKS} rows=${() => rows.flatMap(runs)} test="map-table" />`}
      <${Departures} events=${map.events} />`}
  </section>`;
}

function Row(slot) {
  const { kind, conversation, state, tokens, prompt_tokens, blocks, block_tokens } = slot;
  const name = nameOf(slot);
  const coming = Math.max(0, (prompt_tokens ?? 0) - tokens);
  const isBusy = state !== "idle" && state !== "free";
  return html`<div class=${classes("stack slot", isBusy && "busy")} data-test="slot-row" data-state=${state}>
    <div class="slot-head">
      ${kind === "conversation" && conversation ? html`<a class="slot-name" href=${address("chat", conversation)}>${name}</a>` : html`<span class="slot-name">${name}</span>`}
      <span class="slot-state">${t(`slot.${state}`)}</span>
      <span class="figure note">${coming ? t("map.progress", { done: tokens, all: prompt_tokens }) : t("map.tokens", { n: tokens })}</span>
    </div>
    <${Strip} name=${name} blocks=${blocks} coming=${Math.ceil(coming / block_tokens)} />
  </div>`;
}

const Legend = pure(() => html`<div class="stack map-legend">
  <div class="row"><span class="label">${t("map.legend.layers")}</span>${families.map((family) => html`<span class="key"><i class="cell l-${family}"></i>${t(`layer.${family}`)}</span>`)}</div>
  <div class="row"><span class="label">${t("map.legend.origins")}</span>${origins.map((origin) => html`<span class="key"><i class="cell l-unknown o-${origin}"></i>${t(`origin.${origin}`)}</span>`)}
    <span class="key"><i class="cell coming"></i>${t("origin.coming")}</span></div>
</div>`);

const DEPARTURES = [
  ["left.who", ({ title, conversation }) => title ?? conversation ?? t("map.nobody"), "clip"],
  ["left.tokens", ({ tokens }) => count(tokens), "figure"],
  ["left.to", ({ to }) => html`<span class="state ${to}">${t(`left.to.${to}`)}</span>`],
  ["left.why", ({ why }) => t(`left.why.${why}`)],
  ["left.when", ({ at }) => ago(at), "when"],
];

function Departures({ events }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || redraw((n) => n + 1), 60_000);
    return () => clearInterval(timer);
  }, []);
  return events.length > 0 && html`<${FoldedTable} title=${t("left.title", { n: events.length })} columns=${DEPARTURES} rows=${() => [...events].reverse()} test="departures" />`;
}
