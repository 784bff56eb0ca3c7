// A document of the library that the next new chat is about.

let waiting = null;

/** The page without an address takes it. */
export function newChatAbout(document) {
  waiting = document;
}

/** Attaches it to a new chat, once. */
export function takeDocument(conversation) {
  if (!waiting || conversation.store.get().state !== "new") return;
  conversation.attachments.addStored(waiting.id, waiting.name);
  waiting = null;
}
