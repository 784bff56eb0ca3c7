// A long chat in batches of messages: the newest are drawn at once, the older ones while the browser is idle.

import { useLayoutEffect, useRef, useState } from "/lib.js";

/** A full batch that is out of sight has no layout; `chat.css` has its height. */
export const BATCH = 20;
/** More messages than a window shows. */
const FIRST_BATCHES = 3;
/** Also of a browser that is never idle, because an answer streams in. */
const LATEST_MS = 300;
const WEBKIT_MS = 30;

/** WebKit cannot tell when it is idle. */
const whenIdle = window.requestIdleCallback ?? ((act) => setTimeout(act, WEBKIT_MS));

export function inBatches(path) {
  const batches = [];
  for (let at = 0; at < path.length; at += BATCH) batches.push(path.slice(at, at + BATCH));
  return batches;
}

/** A hook: the index of the first of `count` batches that is drawn; all that follow are, too, and stay so. `needed`:
    the index of one that is drawn at once; or Infinity. */
export function useFirstDrawn(count, needed) {
  const reached = useRef(Infinity);
  const [, redraw] = useState(0);
  const first = Math.max(0, Math.min(reached.current, needed, count - FIRST_BATCHES));
  if (count) reached.current = first;
  // A layout effect: a chat that is seen is printed whole.
  useLayoutEffect(() => {
    if (!first) return undefined;
    let isLeft = false;
    const drawFrom = (index) => {
      if (isLeft) return;
      // Something else may have needed more.
      reached.current = Math.min(reached.current, index);
      redraw((times) => times + 1);
    };
    const drawAll = () => drawFrom(0);
    whenIdle(() => drawFrom(first - 1), { timeout: LATEST_MS });
    window.addEventListener("beforeprint", drawAll);
    return () => {
      isLeft = true;
      window.removeEventListener("beforeprint", drawAll);
    };
  }, [first]);
  return first;
}
