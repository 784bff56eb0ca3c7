// A long list of rows of one height, of which only those in sight are made.

import { html, useEffect, useLayoutEffect, useRef, useState } from "/lib.js";

const SPARE = 6; // rows above and below, so that fast scrolling shows no gap

/** `row(item, index)` draws one; it gets `style` for its place. `current`: an index to keep in sight. */
export function VirtualList({ items, height, row, current, label, ...rest }) {
  const frame = useRef();
  const [range, setRange] = useState([0, 30]);
  const measure = ({ scrollTop, clientHeight }) => {
    const first = Math.max(0, Math.floor(scrollTop / height) - SPARE);
    const last = Math.ceil((scrollTop + clientHeight) / height) + SPARE;
    setRange((old) => (old[0] === first && old[1] === last ? old : [first, last]));
  };
  useEffect(() => {
    const observer = new ResizeObserver(([{ target }]) => measure(target));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (current < 0 || current === undefined) return;
    const { scrollTop, clientHeight } = frame.current;
    const top = current * height;
    if (top < scrollTop) frame.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) frame.current.scrollTop = top + height - clientHeight;
  }, [current]);
  const shown = items.slice(range[0], range[1]);
  return html`<div ref=${frame} onScroll=${(event) => measure(event.currentTarget)} ...${rest}>
    <div class="spacer" role="list" aria-label=${label} style=${{ height: `${items.length * height}px` }}>
      ${shown.map((item, index) => row(item, range[0] + index, { transform: `translateY(${(range[0] + index) * height}px)` }))}
    </div>
  </div>`;
}
