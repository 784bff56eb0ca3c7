// What people read, in their language. Every string lies in `strings/`, one file a language with the
// same names in each; only the one that is shown is loaded.

import { preferences } from "./preferences.js";
import { createStore } from "./store.js";

export const languages = { en: "English", de: "Deutsch" };

/** What is shown now: the language, and its strings. */
export const spoken = createStore({ language: null, strings: {} });

/** Shows the language that is wanted, as soon as it is loaded. */
export async function speak() {
  const name = wanted();
  if (name === spoken.get().language) return;
  const { default: strings } = await import(`../strings/${name}.js`);
  if (name === wanted()) spoken.set({ language: name, strings });
}

function wanted() {
  const { language } = preferences.get();
  if (languages[language]) return language;
  return navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => languages[tag]) ?? "en";
}

/** The language that is shown now. */
export const language = () => spoken.get().language;

/** The string of that name; `values` fill it in. */
export function t(name, values = {}) {
  const string = spoken.get().strings[name];
  if (string === undefined) throw new Error(`there is no string ${name}`);
  return typeof string === "function" ? string(values) : string;
}
