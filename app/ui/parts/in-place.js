// What takes the place of a button: the focus goes to its first field, and back to the button when it closes.

import { useLayoutEffect, useRef } from "/lib.js";

/** For the element that has the fields while `isOpen`, and otherwise the button with the selector `button`. */
export function useInPlace(isOpen, button) {
  const ref = useRef();
  const wasOpen = useRef(isOpen);
  useLayoutEffect(() => {
    if (wasOpen.current === isOpen) return;
    wasOpen.current = isOpen;
    ref.current?.querySelector(isOpen ? "input, textarea" : button)?.focus();
  }, [isOpen]);
  return ref;
}
