// A panel that opens in place: the focus goes to its first control and comes back; Escape closes it.

import { isComposing, useLayoutEffect, useRef } from "/lib.js";

const CONTROLS = "button:not([disabled]), textarea, input, select, a[href]";

/** Attributes of the panel's element. Without `onClose` it was not opened by the user, and takes no focus. */
export function usePanel(onClose) {
  const ref = useRef();
  useLayoutEffect(() => {
    if (!onClose) return undefined;
    const panel = ref.current;
    const opener = document.activeElement;
    panel.querySelector(CONTROLS)?.focus();
    return () => {
      if (panel.contains(document.activeElement)) opener?.focus();
    };
  }, []);
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || isComposing(event) || !onClose) return;
    onClose();
    event.preventDefault();
    event.stopPropagation();
  };
  return { ref, onKeyDown };
}
