// Where a drawing removes what has the focus, another element gets it.

import { useLayoutEffect } from "/lib.js";

/** `next()`: the element that gets the focus of one that the component's drawing removes; without one, the page's
    content gets it. */
export function useNextFocus(next) {
  const focused = document.activeElement;
  useLayoutEffect(() => {
    const isGone = focused && !focused.isConnected && document.activeElement === document.body;
    if (isGone) (next() ?? document.getElementById("content"))?.focus({ preventScroll: true });
  });
}
