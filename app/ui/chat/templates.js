// Prompt templates: the daemon has the list, so that every page and the app show the same. Until someone
// changes it, it is the page's own.

import { api, createStore, t } from "/lib.js";

const PATH = "/v1/templates";
const DEFAULTS = 6;

/** `all`: null before they are read. */
export const templates = createStore({ all: null, isSet: false });

const show = ({ data, is_set: isSet }) => templates.set({ all: isSet ? data : defaults(), isSet });

const defaults = () =>
  Array.from({ length: DEFAULTS }, (_, index) => ({
    name: t(`template.${index + 1}.name`),
    text: t(`template.${index + 1}.text`),
  }));

export const loadTemplates = async () => show(await api.get(PATH));
export const saveTemplates = async (data) => show(await api.put(PATH, { data }));
export const resetTemplates = async () => show(await api.del(PATH));

/** Those whose name or text has the words, names first. Pure. */
export function matching(all, words) {
  const wanted = words.trim().toLowerCase();
  const has = (text) => text.toLowerCase().includes(wanted);
  const byName = all.filter(({ name }) => has(name));
  return [...byName, ...all.filter(({ name, text }) => !has(name) && has(text))];
}
