// The cells of one slot. The DOM is updated directly, without Preact: there may be thousands of cells,
// ten times a second.
//
// - For the keyboard and screen readers a strip is a slider whose value is a block.

import { html, t, useEffect, useLayoutEffect, useRef, useState } from "/lib.js";
import { familyOf, partOf } from "./words.js";

/** More cells to come than this are not drawn. */
const MAX_COMING = 300;
const WIDTHS = 4;
const FULL_BLOCK_TOKENS = 64;
const TIP_GAP_PX = 8;

const STEPS = {
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
  PageDown: 10,
  PageUp: -10,
  Home: -Infinity,
  End: Infinity,
};

const clamped = (value, max) => Math.max(0, Math.min(max, value));

/** `coming`: the cells of the prompt that are not in place yet. */
export function Strip({ name, blocks, coming }) {
  const frame = useRef();
  const [chosen, setChosen] = useState(null);
  const [isKeyed, setKeyed] = useState(false);
  const last = blocks.length - 1;
  const current = chosen === null || last < 0 ? null : Math.min(chosen, last);
  useLayoutEffect(() => draw(frame.current, blocks, Math.min(coming, MAX_COMING)), [
    blocks,
    coming,
  ]);
  useEffect(() => {
    frame.current.querySelector(".at")?.classList.remove("at");
    if (current !== null) frame.current.children[current]?.classList.add("at");
  }, [current, blocks]);
  const point = (event) => {
    const cell = event.target.closest(".cell");
    const index = cell ? [...frame.current.children].indexOf(cell) : -1;
    setKeyed(false);
    setChosen(index >= 0 && index <= last ? index : null);
  };
  const pressKey = (event) => {
    const step = STEPS[event.key];
    const isEscape = event.key === "Escape";
    if ((!isEscape && !step) || last < 0) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    setKeyed(true);
    setChosen(isEscape ? null : clamped((current ?? -1) + step, last));
  };
  const focus = (event) => {
    if (!event.target.matches(":focus-visible")) return;
    setKeyed(true);
    setChosen(current ?? 0);
  };
  const leave = () => {
    if (!isKeyed) setChosen(null);
  };
  return html`
    <div class="strip-frame">
      <div
        ref=${frame}
        class="strip"
        role="slider"
        tabindex="0"
        aria-label=${t("map.strip", { name })}
        aria-valuemin="1"
        aria-valuemax=${Math.max(1, blocks.length)}
        aria-valuenow=${(current ?? 0) + 1}
        aria-valuetext=${inWords(blocks, current ?? 0)}
        data-test="strip"
        onPointerMove=${point}
        onPointerLeave=${leave}
        onKeyDown=${pressKey}
        onFocus=${focus}
        onBlur=${() => setChosen(null)}
      ></div>
      ${current !== null && html`
        <${Tip} strip=${frame} index=${current} block=${blocks[current]} total=${blocks.length} />`}
    </div>`;
}

function inWords(blocks, index) {
  if (!blocks.length) return t("map.no-blocks");
  return Object.values(description(blocks[index], index, blocks.length)).filter(Boolean).join(", ");
}

function description({ start, end, layer, key, origin, sharers }, index, total) {
  return {
    place: t("block.of", { n: index + 1, of: total }),
    tokens: t("block.tokens", { start, end }),
    part: partOf(layer, key),
    origin: t(`origin.${origin}.long`),
    sharers: sharers > 0 && t("block.sharers", { n: sharers }),
  };
}

function Tip({ strip, index, block, total }) {
  const element = useRef();
  useLayoutEffect(() => {
    const cell = strip.current.children[index];
    if (cell) placeTip(element.current, cell, strip.current);
  });
  const { part, tokens, origin, sharers, place } = description(block, index, total);
  return html`
    <div ref=${element} class="tip" data-test="tip" aria-hidden="true">
      <strong>${part}</strong>
      <span class="figure">${tokens}</span>
      <span>${origin}</span>
      ${sharers && html`<span>${sharers}</span>`}
      <code>${place} · ${block.id}</code>
    </div>`;
}

/** Above the cell, or below it at the top of the window. */
function placeTip(tip, cell, strip) {
  const frame = strip.getBoundingClientRect();
  const { left, top, bottom, width } = cell.getBoundingClientRect();
  const { offsetWidth, offsetHeight, style } = tip;
  const above = top - offsetHeight - TIP_GAP_PX;
  const centred = left - frame.left + width / 2 - offsetWidth / 2;
  style.left = `${Math.max(0, Math.min(centred, frame.width - offsetWidth))}px`;
  style.top = `${(above < 0 ? bottom + TIP_GAP_PX : above) - frame.top}px`;
}

function draw(strip, blocks, coming) {
  const total = blocks.length + coming;
  while (strip.childElementCount > total) strip.lastElementChild.remove();
  while (strip.childElementCount < total) strip.append(document.createElement("i"));
  let cell = strip.firstElementChild;
  for (let index = 0; index < total; index += 1) {
    const block = blocks[index];
    const names = block ? cellClasses(block) : `cell coming w${WIDTHS}`;
    const withFocus = cell.classList.contains("at") ? `${names} at` : names;
    if (cell.className !== withFocus) cell.className = withFocus;
    cell = cell.nextElementSibling;
  }
}

export function cellClasses({ start, end, layer, origin, sharers }) {
  const width = Math.max(1, Math.ceil(((end - start) / FULL_BLOCK_TOKENS) * WIDTHS));
  const isAlsoShared = sharers > 0 && origin !== "shared";
  const mark = isAlsoShared ? `o-${origin} o-shared` : `o-${origin}`;
  return `cell w${width} l-${familyOf(layer)} ${mark}`;
}
