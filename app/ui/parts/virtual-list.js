// A list of rows of equal height that renders only the visible ones.

import { html, useEffect, useLayoutEffect, useRef, useState } from "/lib.js";

/** Rows rendered above and below the visible ones, so that fast scrolling shows no gap. */
const SPARE_ROWS = 6;
const FIRST_ROWS = 30;

/** `row(item, index, style)` renders one; `style` positions it. `current`: an index kept in view. */
export function VirtualList({ items, height, row, current, label, ...rest }) {
  const frame = useRef();
  const [range, setRange] = useState([0, FIRST_ROWS]);
  const measure = ({ scrollTop, clientHeight }) => {
    const first = Math.max(0, Math.floor(scrollTop / height) - SPARE_ROWS);
    const last = Math.ceil((scrollTop + clientHeight) / height) + SPARE_ROWS;
    setRange((old) => (old[0] === first && old[1] === last ? old : [first, last]));
  };
  useEffect(() => {
    const observer = new ResizeObserver(([{ target }]) => measure(target));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (current === undefined || current < 0) return;
    const { scrollTop, clientHeight } = frame.current;
    const top = current * height;
    const bottom = top + height;
    if (top < scrollTop) frame.current.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) frame.current.scrollTop = bottom - clientHeight;
  }, [current]);
  const [first, last] = range;
  const placed = (item, offset) => {
    const index = first + offset;
    return row(item, index, { transform: `translateY(${index * height}px)` });
  };
  return html`
    <div ref=${frame} onScroll=${(event) => measure(event.currentTarget)} ...${rest}>
      <div
        class="spacer"
        role="list"
        aria-label=${label}
        style=${{ height: `${items.length * height}px` }}
      >
        ${items.slice(first, last).map(placed)}
      </div>
    </div>`;
}
