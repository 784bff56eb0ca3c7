// What is not sent yet, such as the words in the composer, for as long as the browser's tab lives: a reload keeps it.

const PREFIX = "hob.draft.";

/** `name`: of a chat; null where nothing may be stored. */
export const drafts = {
  read(name) {
    if (name === null) return "";
    try {
      return sessionStorage.getItem(PREFIX + name) ?? "";
    } catch {
      return ""; // The storage is forbidden.
    }
  },
  write(name, draft) {
    if (name === null) return;
    try {
      if (draft) sessionStorage.setItem(PREFIX + name, draft);
      else sessionStorage.removeItem(PREFIX + name);
    } catch {
      // The storage is full or forbidden: the words last until the page is closed.
    }
  },
};

/** Keeps what `textOf` has of a store's state under the name of `nameOf()`, which may change. */
export function keepDraft(store, nameOf, textOf) {
  let [savedAs, saved] = [nameOf(), textOf(store.get())];
  store.subscribe((state) => {
    const [name, text] = [nameOf(), textOf(state)];
    if (name === savedAs && text === saved) return;
    if (name !== savedAs) drafts.write(savedAs, "");
    drafts.write(name, text);
    [savedAs, saved] = [name, text];
  });
}
