// What people read, in their language. Every string lies in `strings/`, one file a language with the
// same names in each; only the one that is shown is loaded.

import { bytes, count, duration, formatter } from "./format.js";
import { preferences } from "./preferences.js";
import { createStore } from "./store.js";

export const languages = { en: "English", de: "Deutsch" };

/** What is shown now: the language, and its strings. */
export const spoken = createStore({ language: null, strings: {} });

/** Shows the language that is wanted, as soon as it is loaded. */
export async function speak() {
  const name = wanted();
  if (name === spoken.get().language) return;
  const strings = await (await fetch(`strings/${name}.json`)).json();
  if (name !== wanted()) return;
  document.documentElement.lang = name;
  spoken.set({ language: name, strings });
}

function wanted() {
  const { language } = preferences.get();
  if (languages[language]) return language;
  return navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => languages[tag]) ?? "en";
}

const KINDS = { bytes, duration };

/**
 * The string of that name, filled in: `{name}` with a text, or a number as people write it; `{name, bytes}`
 * and `{name, duration}` (in ms) with those. One of several forms is chosen by `n`: `zero`, or CLDR's plurals.
 */
export function t(name, values = {}) {
  const string = spoken.get().strings[name];
  if (string === undefined) throw new Error(`there is no string ${name}`);
  const form = typeof string === "string" ? string : formFor(values.n, string);
  return form.replace(/\{(\w+)(?:, (\w+))?\}/g, (_, place, kind) => {
    const value = values[place];
    return kind ? KINDS[kind](value) : typeof value === "number" ? count(value) : value;
  });
}

const formFor = (n, forms) => (n === 0 && forms.zero) || (forms[formatter(Intl.PluralRules).select(n)] ?? forms.other);
