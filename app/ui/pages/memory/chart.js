// How soon answers began, in their order: what was reused against what was computed cold. Two shapes tell
// them apart, the figures are beside them, and a table has every one.

import { ago, count, duration, html, t, useEffect, useMemo, useRef, useState } from "/lib.js";
import { FoldedTable } from "/parts.js";
import { pick, points, ticks } from "./scale.js";
import { reading } from "./words.js";

const median = (ms) => (ms === null ? "–" : duration(ms));

const HEIGHT = 220;
const EDGE = { left: 58, right: 14, top: 12, bottom: 26 };

export function Chart({ turns }) {
  const all = useMemo(() => points(turns ?? []), [turns]);
  return html`<section class="card stack" data-test="memory-chart"><h2>${t("chart.title")}</h2>
    ${!turns ? reading() : !all.list.length ? html`<div class="empty"><p>${t("chart.empty")}</p></div>` : html`
      <p class="chart-legend">${["reused", "cold"].map((kind) => html`<span class="key"><svg class="mark ${kind}" viewBox="0 0 14 14" aria-hidden="true"><${Mark} kind=${kind} x=${7} y=${7} /></svg>
        ${all[kind] === null ? t(`chart.${kind}.none`) : html`<span>${t(`chart.${kind}`, { n: all.of[kind] })} <strong class="figure">${duration(all[kind])}</strong></span>`}</span>`)}</p>
      <${Plot} all=${all} />
      <${FoldedTable} title=${t("map.table")} columns=${COLUMNS} rows=${() => [...all.list].reverse()} test="chart-table" />`}
  </section>`;
}

function Plot({ all: { list, reused, cold } }) {
  const frame = useRef();
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(null);
  useEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(Math.round(contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const { lowest, highest, marks } = ticks(list.map(({ ttft }) => ttft));
  const inner = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const x = (index) => EDGE.left + (list.length === 1 ? inner.width / 2 : (index / (list.length - 1)) * inner.width);
  const y = (ms) => EDGE.top + inner.height * (1 - Math.log(ms / lowest) / Math.log(highest / lowest));
  const point = (event) => setAt(pick(list.length, (event.clientX - frame.current.getBoundingClientRect().left - EDGE.left) / inner.width));
  const label = t("chart.label", { n: list.length, reused: median(reused), cold: median(cold) });
  const shown = at === null ? null : list[at];
  return html`<div ref=${frame} class="chart" onPointerMove=${point} onPointerLeave=${() => setAt(null)}>
    ${width > 0 && html`<svg width=${width} height=${HEIGHT} role="img" aria-label=${label}>
      ${marks.map((ms) => html`<g key=${ms}><line class="grid" x1=${EDGE.left} x2=${width - EDGE.right} y1=${y(ms)} y2=${y(ms)} /><text class="axis" x=${EDGE.left - 8} y=${y(ms) + 4} text-anchor="end">${duration(ms)}</text></g>`)}
      ${[["reused", reused], ["cold", cold]].map(([kind, ms]) => ms !== null && html`<line key=${kind} class="median ${kind}" x1=${EDGE.left} x2=${width - EDGE.right} y1=${y(ms)} y2=${y(ms)} />`)}
      ${shown && html`<line class="at" x1=${x(at)} x2=${x(at)} y1=${EDGE.top} y2=${HEIGHT - EDGE.bottom} />`}
      ${list.map(({ kind, ttft, key }, index) => html`<${Mark} key=${key} kind=${kind} x=${x(index)} y=${y(ttft)} />`)}
      <text class="axis" x=${EDGE.left} y=${HEIGHT - 6}>${ago(list[0].at)}</text>
      ${list.length > 1 && html`<text class="axis" x=${width - EDGE.right} y=${HEIGHT - 6} text-anchor="end">${ago(list.at(-1).at)}</text>`}
    </svg>`}
    ${shown && html`<div class="tip" aria-hidden="true" style=${{ left: `${Math.max(0, Math.min(x(at) + 12, width - 230))}px`, top: "0px" }}>
      <strong class="clip">${shown.title}</strong><span class="figure">${t("chart.point", { time: shown.ttft, kind: t(`chart.kind.${shown.kind}`) })}</span>
      <span class="figure">${t("chart.tokens", { reused: shown.reused, computed: shown.computed })}</span><span>${ago(shown.at)}</span></div>`}
  </div>`;
}

/** A disc for what was reused, a hollow square for what was cold. */
function Mark({ kind, x, y }) {
  return kind === "reused" ? html`<circle class="mark reused" cx=${x} cy=${y} r="4" />` : html`<rect class="mark cold" x=${x - 4} y=${y - 4} width="8" height="8" />`;
}

const COLUMNS = [
  ["left.who", ({ title }) => title, "clip"],
  ["chart.kind", ({ kind }) => t(`chart.kind.${kind}`)],
  ["chart.ttft", ({ ttft }) => duration(ttft), "figure"],
  ["chart.reused.tokens", ({ reused }) => count(reused), "figure"],
  ["chart.computed.tokens", ({ computed }) => count(computed), "figure"],
  ["left.when", ({ at }) => ago(at), "when"],
];
