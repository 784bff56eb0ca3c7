// Visible text in the user's language; only the language that is shown is loaded.
//
// - `strings/en.json` has what a chat with its first message shows, `strings/later/en.json` the rest: a module that
//   shows some of those is imported by `withTexts`.

import { bytes, count, duration, formatter, seconds } from "./format.js";
import { preferences } from "./preferences.js";
import { createStore } from "./store.js";

export const languages = { en: "English", de: "Deutsch" };

/** The language that is shown, and its strings. */
export const locale = createStore({ language: null, strings: {} });

/** Whether a module has asked for the later texts, and whether those of the language are there. */
let needsLater = false;
let hasLater = false;

/** Loads and shows the language that the preferences or the browser ask for. */
export async function loadLanguage() {
  const language = preferredLanguage();
  if (language === locale.get().language) return;
  const needed = needsLater;
  const [first, later] = await Promise.all([read(language), needed ? read(`later/${language}`) : {}]);
  // It was changed meanwhile.
  if (language !== preferredLanguage()) return;
  if (needed !== needsLater) return loadLanguage();
  document.documentElement.lang = language;
  hasLater = needed;
  locale.set({ language, strings: { ...first, ...later } });
}

/** Resolves to a module once the later texts are there, too. */
export async function withTexts(importing) {
  needsLater = true;
  const [module] = await Promise.all([importing, loadLater()]);
  return module;
}

let loading = null;

function loadLater() {
  loading ??= addLater().finally(() => {
    loading = null;
  });
  return loading;
}

async function addLater() {
  while (!hasLater) {
    const { language } = locale.get();
    const later = await read(`later/${language}`);
    // The language was changed meanwhile.
    if (hasLater || language !== locale.get().language) continue;
    hasLater = true;
    locale.set(({ strings }) => ({ strings: { ...strings, ...later } }));
  }
}

const read = async (name) => (await fetch(`strings/${name}.json`)).json();

function preferredLanguage() {
  const { language } = preferences.get();
  if (languages[language]) return language;
  return navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => languages[tag]) ?? "en";
}

/**
 * The string of that name with its placeholders filled in: `{name}` takes text or a number,
 * `{name, bytes}` a size, `{name, duration}` milliseconds, `{name, seconds}` the same, rounder. Of a string with several forms, `n`
 * selects one: `zero` for 0, or else CLDR's plural category.
 */
export function t(name, values = {}) {
  const string = locale.get().strings[name];
  if (string === undefined) throw new Error(`there is no string ${name}`);
  const text = typeof string === "string" ? string : pluralForm(string, values.n);
  return text.replace(/\{(\w+)(?:, (\w+))?\}/g, (_, place, kind) => written(values[place], kind));
}

function pluralForm(forms, n) {
  if (n === 0 && forms.zero) return forms.zero;
  return forms[formatter(Intl.PluralRules).select(n)] ?? forms.other;
}

function written(value, kind) {
  if (kind === "bytes") return bytes(value);
  if (kind === "duration") return duration(value);
  if (kind === "seconds") return seconds(value);
  return typeof value === "number" ? count(value) : value;
}
