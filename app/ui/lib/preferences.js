// What somebody likes, kept in this browser: how the page looks and what new answers are asked with.

import { createKeptStore } from "./store.js";

export const preferences = createKeptStore("hob.preferences", {
  theme: "system", // or light, dark
  language: "system", // or a key of `languages`
  temperature: 0.3, // leaves little to chance: the bundled model is tiny
  profile: "", // what new chats begin with; none
  sidebar: true,
});

export function applyTheme() {
  document.documentElement.dataset.theme = preferences.get().theme;
}
