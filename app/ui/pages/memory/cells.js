// The map of the hot tier: a row for each slot, a cell for each block.
//
// - A cell's colour and pattern show the part of the prompt, its mark the origin, its width the
//   number of tokens. The tip under the pointer, the keyboard and the table give the same in words.

import { address, ago, classes, count, every, html, t, useEffect, useState } from "/lib.js";
import { FoldedTable } from "/parts/table.js";
import { BLOCKS, runs } from "./blocks.js";
import { Strip } from "./strip.js";
import { families, loadingNote, nameOf, origins } from "./words.js";

const isInUse = ({ tokens, state }) => tokens > 0 || state !== "free";
const isConversation = ({ kind }) => kind === "conversation";

export function Cells({ map }) {
  return html`
    <section class="card stack" data-test="memory-map">
      <div class="row apart">
        <h2>${t("map.title")}</h2>
        ${map && html`
          <span class="note figure">
            ${t("map.used", { used: map.used_tokens, all: map.context_tokens })}
          </span>`}
      </div>
      ${map ? html`<${Slots} map=${map} /><${Evictions} events=${map.events} />` : loadingNote()}
    </section>`;
}

function Slots({ map }) {
  const rows = map.slots.filter(isInUse);
  if (!rows.length) return html`<div class="empty"><p>${t("map.empty")}</p></div>`;
  const free = map.slots.filter(isConversation).length - rows.filter(isConversation).length;
  return html`
    <${Legend} />
    <div class="stack">
      ${rows.map((slot) => html`
        <${Row} key=${slot.slot} ...${slot} block_tokens=${map.block_tokens} />`)}
    </div>
    <p class="note">${t("map.free", { n: free })}</p>
    <${FoldedTable}
      title=${t("map.table")}
      columns=${BLOCKS}
      rows=${() => rows.flatMap(runs)}
      test="map-table"
    />`;
}

function Row(slot) {
  const { kind, conversation, state, tokens, blocks, block_tokens } = slot;
  const total = slot.prompt_tokens ?? 0;
  const missing = Math.max(0, total - tokens);
  const away = blocks
    .filter(({ origin }) => origin === "away")
    .reduce((sum, { start, end }) => sum + end - start, 0);
  const isBusy = state !== "idle" && state !== "free";
  const name = nameOf(slot);
  const progress = t("map.progress", { done: tokens, all: total });
  return html`
    <div class=${classes("stack slot", isBusy && "busy")} data-test="slot-row" data-state=${state}>
      <div class="slot-head">
        ${kind === "conversation" && conversation
          ? html`<a class="slot-name" dir="auto" href=${address("chat", conversation)}>${name}</a>`
          : html`<span class="slot-name" dir="auto">${name}</span>`}
        <span class="slot-state">${t(`slot.${state}`)}</span>
        <span class="figure note">
          ${missing ? progress : t("map.tokens", { n: tokens })}
          ${away > 0 && ` · ${t("numbers.away", { n: away })}`}
        </span>
      </div>
      <${Strip} name=${name} blocks=${blocks} coming=${Math.ceil(missing / block_tokens)} />
    </div>`;
}

const Legend = () => html`
  <div class="stack map-legend">
    <div class="row">
      <span class="label">${t("map.legend.layers")}</span>
      ${families.map((family) => html`
        <${LegendKey} cell=${`l-${family}`} text=${t(`layer.${family}`)} />`)}
    </div>
    <div class="row">
      <span class="label">${t("map.legend.origins")}</span>
      ${origins.map((origin) => html`
        <${LegendKey} cell=${`l-unknown o-${origin}`} text=${t(`origin.${origin}`)} />`)}
      <${LegendKey} cell="coming" text=${t("origin.coming")} />
    </div>
  </div>`;

function LegendKey({ cell, text }) {
  return html`<span class="key"><i class="cell ${cell}"></i>${text}</span>`;
}

const EVICTIONS = [
  ["evicted.who", ({ title, conversation }) => title ?? conversation ?? t("map.unnamed"), "clip"],
  ["evicted.tokens", ({ tokens }) => count(tokens), "figure"],
  ["evicted.to", ({ to }) => html`<span class="state ${to}">${t(`evicted.to.${to}`)}</span>`],
  ["evicted.why", ({ why }) => t(`evicted.why.${why}`)],
  ["evicted.when", ({ at }) => ago(at), "when"],
];

const AGES_EVERY_MS = 60_000;

function Evictions({ events }) {
  const [, redraw] = useState(0);
  useEffect(() => every(AGES_EVERY_MS, () => redraw((times) => times + 1)), []);
  if (!events.length) return null;
  return html`
    <${FoldedTable}
      title=${t("evicted.title", { n: events.length })}
      columns=${EVICTIONS}
      rows=${() => [...events].reverse()}
      test="evictions"
    />`;
}
