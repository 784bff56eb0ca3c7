// A list of groups of rows that renders only the visible ones. All rows have one height, and all heads.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "/lib.js";

/** Rows rendered above and below the visible ones, so that fast scrolling shows no gap. */
const SPARE_ROWS = 6;
const FIRST_ROWS = 30;

/** The pixels of a rem: the text size that the browser is set to. */
const remPx = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

/**
 * `groups`: `{ name, label, items }`; a group without a label has no head. `height` of a row and `headHeight` of a
 * head are in rem. `row(item, index, place)` renders one, `place`: `{ style, position, of }` within its group.
 * `current`: an index kept in view; `kept`: one that is always rendered, so that it can have the focus. Indexes count
 * the rows of all groups.
 */
export function VirtualList({ groups, height, headHeight, row, current, kept, label, ...rest }) {
  const frame = useRef();
  const [range, setRange] = useState([0, FIRST_ROWS]);
  const { placed, total } = useMemo(() => layout(groups, height, headHeight), [groups, height, headHeight]);
  const measure = ({ scrollTop, clientHeight }) => {
    const rowPx = height * remPx();
    const first = Math.max(0, Math.floor(scrollTop / rowPx) - SPARE_ROWS);
    const last = Math.ceil((scrollTop + clientHeight) / rowPx) + SPARE_ROWS;
    setRange((old) => (old[0] === first && old[1] === last ? old : [first, last]));
  };
  useEffect(() => {
    const observer = new ResizeObserver(() => measure(frame.current));
    observer.observe(frame.current);
    // Another text size makes all rows higher or lower.
    observer.observe(frame.current.firstChild);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (current === undefined || current < 0) return;
    const { scrollTop, clientHeight } = frame.current;
    const rem = remPx();
    const group = placed.findLast(({ first }) => first <= current);
    const top = group.top + (current - group.first) * height;
    const bottom = (top + height) * rem;
    // With the head of its group, where it is the first.
    const shown = (current === group.first ? top - group.head : top) * rem;
    if (shown < scrollTop) frame.current.scrollTop = shown;
    else if (bottom > scrollTop + clientHeight) frame.current.scrollTop = bottom - clientHeight;
  }, [current]);
  const [from, to] = range.map((rows) => rows * height);
  return html`
    <div ref=${frame} onScroll=${(event) => measure(event.currentTarget)} ...${rest}>
      <div class="spacer" style=${{ height: `${total}rem` }}>
        ${placed.map((group) => html`
          <${Group} key=${group.name} group=${group} from=${from} to=${to} kept=${kept} height=${height} row=${row} label=${label} />`)}
      </div>
    </div>`;
}

/** `top`: of a group's first row, in rem; `first`: its index. */
function layout(groups, height, headHeight) {
  let [top, first] = [0, 0];
  const placed = groups.map((group) => {
    const head = group.label ? headHeight : 0;
    const made = { ...group, head, top: top + head, first };
    top += head + group.items.length * height;
    first += group.items.length;
    return made;
  });
  return { placed, total: top };
}

function Group({ group, from, to, kept, height, row, label: listLabel }) {
  const { label, head, top, first, items } = group;
  const begin = Math.min(items.length, Math.max(0, Math.floor((from - top) / height)));
  const end = Math.max(begin, Math.min(items.length, Math.ceil((to - top) / height)));
  const shown = Array.from({ length: end - begin }, (_, offset) => begin + offset);
  const keptHere = kept - first;
  if (keptHere >= 0 && keptHere < items.length && !shown.includes(keptHere)) {
    if (keptHere < begin) shown.unshift(keptHere);
    else shown.push(keptHere);
  }
  if (!shown.length) return null;
  const move = (rem) => ({ transform: `translateY(${rem}rem)` });
  const placed = (at) =>
    row(items[at], first + at, { style: move(top + at * height), position: at + 1, of: items.length });
  return html`
    ${head > 0 && html`<h2 class="group-head" style=${move(top - head)}>${label}</h2>`}
    <div role="list" aria-label=${label || listLabel}>${shown.map(placed)}</div>`;
}
