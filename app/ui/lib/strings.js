// What people read, in their language. Every string lies in `strings/`, one file a language.

import en from "../strings/en.js";
import de from "../strings/de.js";
import { preferences } from "./preferences.js";

export const languages = { en: "English", de: "Deutsch" };
const all = { en, de };

/** The language that is shown now. */
export function language() {
  const wanted = preferences.get().language;
  if (all[wanted]) return wanted;
  const known = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => all[tag]);
  return known ?? "en";
}

/** The string of that name; `values` fill it in. English stands in for what is not translated. */
export function t(name, values = {}) {
  const string = all[language()][name] ?? en[name];
  if (string === undefined) throw new Error(`there is no string ${name}`);
  return typeof string === "function" ? string(values) : string;
}
