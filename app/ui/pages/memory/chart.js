// Time to first token, answer by answer: reused against cold. The two kinds differ in shape as well
// as in colour; a table has every figure.

import { ago, count, duration, html, t, useEffect, useMemo, useRef, useState } from "/lib.js";
import { FoldedTable } from "/parts/table.js";
import { nearest, points, ticks } from "./scale.js";
import { loadingNote } from "./words.js";

const KINDS = ["reused", "cold"];
const HEIGHT = 220;
const EDGE = { left: 58, right: 14, top: 12, bottom: 26 };
const TIP_WIDTH = 230;

const COLUMNS = [
  ["evicted.who", ({ title }) => title, "clip"],
  ["chart.kind", ({ kind }) => t(`chart.kind.${kind}`)],
  ["chart.ttft", ({ ttft }) => duration(ttft), "figure"],
  ["chart.reused.tokens", ({ reused }) => count(reused), "figure"],
  ["chart.computed.tokens", ({ computed }) => count(computed), "figure"],
  ["evicted.when", ({ at }) => ago(at), "when"],
];

export function Chart({ turns }) {
  return html`
    <section class="card stack" data-test="memory-chart">
      <h2>${t("chart.title")}</h2>
      ${turns ? html`<${Answers} turns=${turns} />` : loadingNote()}
    </section>`;
}

function Answers({ turns }) {
  const { list, median, count } = useMemo(() => points(turns), [turns]);
  if (!list.length) return html`<div class="empty"><p>${t("chart.empty")}</p></div>`;
  return html`
    <p class="chart-legend">
      ${KINDS.map((kind) => html`
        <span class="key">
          <svg class="mark ${kind}" viewBox="0 0 14 14" aria-hidden="true">
            <${Mark} kind=${kind} x=${7} y=${7} />
          </svg>
          <${Median} kind=${kind} n=${count[kind]} ms=${median[kind]} />
        </span>`)}
    </p>
    <${Plot} list=${list} median=${median} />
    <${FoldedTable}
      title=${t("map.table")}
      columns=${COLUMNS}
      rows=${() => [...list].reverse()}
      test="chart-table"
    />`;
}

function Median({ kind, n, ms }) {
  if (ms === null) return t(`chart.${kind}.none`);
  return html`
    <span>${t(`chart.${kind}`, { n })} <strong class="figure">${duration(ms)}</strong></span>`;
}

/** A disc for a reused answer, a hollow square for a cold one. */
function Mark({ kind, x, y }) {
  if (kind === "reused") return html`<circle class="mark reused" cx=${x} cy=${y} r="4" />`;
  return html`<rect class="mark cold" x=${x - 4} y=${y - 4} width="8" height="8" />`;
}

function Plot({ list, median }) {
  const frame = useRef();
  const width = useWidth(frame);
  const [index, setIndex] = useState(null);
  const { x, y, marks, fractionAt } = scales(list, width);
  const point = (event) => {
    const { left } = frame.current.getBoundingClientRect();
    setIndex(nearest(list.length, fractionAt(event.clientX - left)));
  };
  const inWords = (ms) => (ms === null ? "–" : duration(ms));
  const [reused, cold] = KINDS.map((kind) => inWords(median[kind]));
  const shown = index === null ? null : list[index];
  const [start, end] = [EDGE.left, width - EDGE.right];
  const line = (name, ms) => html`
    <line key=${name} class=${name} x1=${start} x2=${end} y1=${y(ms)} y2=${y(ms)} />`;
  const time = (at, px, anchor) => html`
    <text class="axis" x=${px} y=${HEIGHT - 6} text-anchor=${anchor}>${ago(at)}</text>`;
  return html`
    <div ref=${frame} class="chart" onPointerMove=${point} onPointerLeave=${() => setIndex(null)}>
      ${width > 0 && html`
        <svg
          width=${width}
          height=${HEIGHT}
          role="img"
          aria-label=${t("chart.label", { n: list.length, reused, cold })}
        >
          ${marks.map((ms) => html`
            <g key=${ms}>
              ${line("grid", ms)}
              <text class="axis" x=${start - 8} y=${y(ms) + 4} text-anchor="end">
                ${duration(ms)}
              </text>
            </g>`)}
          ${KINDS.map((kind) => median[kind] !== null && line(`median ${kind}`, median[kind]))}
          ${shown && html`
            <line class="at" x1=${x(index)} x2=${x(index)} y1=${EDGE.top} y2=${HEIGHT - EDGE.bottom} />`}
          ${list.map(({ key, kind, ttft }, at) => html`
            <${Mark} key=${key} kind=${kind} x=${x(at)} y=${y(ttft)} />`)}
          ${time(list[0].at, start, "start")}
          ${list.length > 1 && time(list.at(-1).at, end, "end")}
        </svg>`}
      ${shown && html`
        <${Tip} point=${shown} left=${Math.max(0, Math.min(x(index) + 12, width - TIP_WIDTH))} />`}
    </div>`;
}

function useWidth(element) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => {
      setWidth(Math.round(contentRect.width));
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** Places in the plot: answers are evenly spaced, times are logarithmic. */
function scales(list, width) {
  const { lowest, highest, marks } = ticks(list.map(({ ttft }) => ttft));
  const innerWidth = width - EDGE.left - EDGE.right;
  const innerHeight = HEIGHT - EDGE.top - EDGE.bottom;
  const fractionOf = (index) => (list.length === 1 ? 0.5 : index / (list.length - 1));
  return {
    marks,
    x: (index) => EDGE.left + fractionOf(index) * innerWidth,
    y: (ms) => EDGE.top + innerHeight * (1 - Math.log(ms / lowest) / Math.log(highest / lowest)),
    fractionAt: (x) => (x - EDGE.left) / innerWidth,
  };
}

function Tip({ point: { title, ttft, kind, reused, computed, at }, left }) {
  return html`
    <div class="tip" aria-hidden="true" style=${{ left: `${left}px`, top: "0px" }}>
      <strong class="clip" dir="auto">${title}</strong>
      <span class="figure">${t("chart.point", { time: ttft, kind: t(`chart.kind.${kind}`) })}</span>
      <span class="figure">${t("chart.tokens", { reused, computed })}</span>
      <span>${ago(at)}</span>
    </div>`;
}
