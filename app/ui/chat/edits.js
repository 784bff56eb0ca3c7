// The texts of messages that are being edited: they stay until they are saved or given up, also while another chat is
// shown, for as long as the browser's tab lives.

import { isPrivate } from "./chats.js";
import { drafts } from "./drafts.js";

/** Of the conversation `id`. Those of a private chat stay in memory. */
export function createEdits(id) {
  const texts = new Map();
  const nameOf = (message) => (isPrivate(id) ? null : `${id}.edit.${message}`);
  return {
    /** Of the message with an id; empty without an edit. */
    read: (message) => texts.get(message) ?? drafts.read(nameOf(message)),
    /** An empty text ends the edit. */
    write(message, text) {
      texts.set(message, text);
      drafts.write(nameOf(message), text);
    },
  };
}
