// The user's preferences, stored in this browser: appearance, and the defaults of new chats.

import { createPersistentStore } from "./store.js";

export const preferences = createPersistentStore("hob.preferences", {
  theme: "system", // or light, dark
  language: "system", // or a key of `languages`
  profile: "", // of new chats; empty for the default one, if there is one
  typeAhead: true, // the daemon computes a message's words while the user types
  speaks: true, // an answer to spoken words is spoken, if the daemon has a voice
  sidebar: true,
});

export function applyTheme() {
  document.documentElement.dataset.theme = preferences.get().theme;
}
