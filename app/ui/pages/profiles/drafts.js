// Instructions that were edited and not saved, for as long as the browser's tab lives: a reload keeps them.

import { drafts as stored } from "/chat/drafts.js";
import { restoredDraft } from "./draft.js";

/** Drafts of chats stand beside them, by the id of their chat. */
const keyOf = (name) => `instructions ${name}`;

/** By name; null where there is none. */
const known = new Map();

export const drafts = {
  get(name) {
    if (!known.has(name)) known.set(name, restoredDraft(stored.read(keyOf(name))));
    return known.get(name);
  },
  /** `draft`: null removes it. */
  set(name, draft) {
    known.set(name, draft);
    stored.write(keyOf(name), draft && JSON.stringify(draft));
  },
};
