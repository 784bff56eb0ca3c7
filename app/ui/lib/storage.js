/**
 * Texts by their names in a storage of the browser, `localStorage` or `sessionStorage`. Where the browser forbids it,
 * they last until the page is closed.
 */
export function textsIn(kind) {
  let texts = {};
  try {
    texts = window[kind] ?? texts;
  } catch {
    // It is forbidden.
  }
  return {
    /** Empty where there is none. */
    read: (name) => texts[name] ?? "",
    /** An empty text is removed. */
    write(name, text) {
      try {
        if (text) texts[name] = text;
        else delete texts[name];
      } catch {
        // The storage is full: the page still has it.
      }
    },
  };
}
