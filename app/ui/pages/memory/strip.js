// The cells of one slot. Changed by hand, not drawn anew: there may be thousands, ten times a second.
//
// - The keyboard moves over them as over a slider, whose value is a block.

import { html, t, useEffect, useLayoutEffect, useRef, useState } from "/lib.js";
import { familyOf, partOf } from "./words.js";

/** More than so many cells on their way tell nothing more. */
const MOST_COMING = 300;
const WIDTHS = 4;
const WHOLE = 64;
const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

export function Strip({ name, blocks, coming }) {
  const frame = useRef();
  const [at, setAt] = useState(null);
  const [isKeyed, setKeyed] = useState(false);
  useLayoutEffect(() => draw(frame.current, blocks, Math.min(coming, MOST_COMING)), [blocks, coming]);
  const current = at === null || !blocks.length ? null : Math.min(at, blocks.length - 1);
  useEffect(() => {
    frame.current.querySelector(".at")?.classList.remove("at");
    if (current !== null) frame.current.children[current]?.classList.add("at");
  }, [current, blocks]);
  const point = (event) => {
    const cell = event.target.closest(".cell");
    const index = cell ? [...frame.current.children].indexOf(cell) : -1;
    setKeyed(false);
    setAt(index >= 0 && index < blocks.length ? index : null);
  };
  const key = (event) => {
    const last = blocks.length - 1;
    const isLeft = event.key === "Escape";
    if (!(isLeft || STEPS[event.key]) || last < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    setKeyed(true);
    setAt(isLeft ? null : Math.max(0, Math.min(last, (current ?? -1) + STEPS[event.key])));
  };
  const value = current ?? 0;
  return html`<div class="strip-frame">
    <div ref=${frame} class="strip" role="slider" tabindex="0" aria-label=${t("map.strip", { name })} aria-valuemin="1" aria-valuemax=${Math.max(1, blocks.length)} aria-valuenow=${value + 1}
      aria-valuetext=${blocks.length ? Object.values(told(blocks[value], value, blocks.length)).filter(Boolean).join(", ") : t("map.no-blocks")} data-test="strip"
      onPointerMove=${point} onPointerLeave=${() => isKeyed || setAt(null)} onKeyDown=${key} onFocus=${(event) => {
        if (!event.target.matches(":focus-visible")) return;
        setKeyed(true);
        setAt(value);
      }} onBlur=${() => setAt(null)}></div>
    ${current !== null && html`<${Tip} strip=${frame} at=${current} block=${blocks[current]} of=${blocks.length} />`}
  </div>`;
}

/** A block in words, part by part. */
const told = ({ start, end, layer, key, origin, sharers }, index, of) => ({
  place: t("block.of", { n: index + 1, of }),
  tokens: t("block.tokens", { start, end }),
  part: partOf(layer, key),
  origin: t(`origin.${origin}.long`),
  sharers: sharers > 0 && t("block.sharers", { n: sharers }),
});

function Tip({ strip, at, block, of }) {
  const element = useRef();
  useLayoutEffect(() => {
    const cell = strip.current.children[at];
    if (!cell) return;
    const frame = strip.current.getBoundingClientRect();
    const { left, top, bottom, width } = cell.getBoundingClientRect();
    const { offsetWidth, offsetHeight, style } = element.current;
    const below = top - offsetHeight - 8 < 0;
    style.left = `${Math.max(0, Math.min(left - frame.left + width / 2 - offsetWidth / 2, frame.width - offsetWidth))}px`;
    style.top = `${(below ? bottom + 8 : top - offsetHeight - 8) - frame.top}px`;
  });
  const { part, tokens, origin, sharers, place } = told(block, at, of);
  return html`<div ref=${element} class="tip" data-test="tip" aria-hidden="true">
    <strong>${part}</strong><span class="figure">${tokens}</span><span>${origin}</span>${sharers && html`<span>${sharers}</span>`}
    <code>${place} · ${block.id}</code>
  </div>`;
}

function draw(strip, blocks, coming) {
  const wanted = blocks.length + coming;
  while (strip.childElementCount > wanted) strip.lastElementChild.remove();
  while (strip.childElementCount < wanted) strip.append(document.createElement("i"));
  let cell = strip.firstElementChild;
  for (let index = 0; index < wanted; index += 1, cell = cell.nextElementSibling) {
    const names = index < blocks.length ? classesOf(blocks[index]) : `cell coming w${WIDTHS}`;
    const kept = cell.classList.contains("at") ? `${names} at` : names;
    if (cell.className !== kept) cell.className = kept;
  }
}

function classesOf({ start, end, layer, origin, sharers }) {
  const width = Math.max(1, Math.ceil(((end - start) / WHOLE) * WIDTHS));
  const mark = sharers > 0 && origin !== "shared" ? `o-${origin} o-shared` : `o-${origin}`;
  return `cell w${width} l-${familyOf(layer)} ${mark}`;
}
