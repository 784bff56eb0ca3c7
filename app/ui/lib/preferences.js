// The user's preferences, stored in this browser: appearance, and the defaults of new chats.

import { createPersistentStore } from "./store.js";

export const preferences = createPersistentStore("hob.preferences", {
  // or light, dark
  theme: "system",
  // or a key of `languages`
  language: "system",
  // of new chats; empty for the default one, if there is one
  profile: "",
  // the daemon computes a message's words while the user types
  typeAhead: true,
  // an answer to spoken words is spoken, if the daemon has a voice
  speaks: true,
  sidebar: true,
});

export function applyTheme() {
  document.documentElement.dataset.theme = preferences.get().theme;
}
