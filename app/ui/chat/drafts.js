// What is not sent yet, such as the words in the composer, for as long as the browser's tab lives: a reload keeps it.

import { textsIn } from "/lib.js";

const PREFIX = "hob.draft.";
const texts = textsIn("sessionStorage");

/** `name`: of a chat; null where nothing may be stored. */
export const drafts = {
  read: (name) => (name === null ? "" : texts.read(PREFIX + name)),
  write: (name, draft) => name === null || texts.write(PREFIX + name, draft),
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
