// The words in the composer, for as long as the browser's tab lives: a reload keeps them.

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
