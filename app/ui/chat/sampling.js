// The sampling parameters of a chat: their ranges, presets, and how they are named. Pure.

/** `standard`: what counts where neither chat, instructions nor model set it; null: nothing. */
export const PARAMETERS = [
  { name: "temperature", min: 0, max: 2, step: 0.05, standard: 1 },
  { name: "top_p", min: 0, max: 1, step: 0.05, standard: 1 },
  { name: "min_p", min: 0, max: 1, step: 0.01, standard: 0 },
  { name: "top_k", min: 0, max: 1000, step: 1, standard: 0 },
  { name: "repeat_penalty", min: 0.1, max: 10, step: 0.05, standard: 1 },
  { name: "repeat_last_n", min: -1, max: 1_000_000, step: 1, standard: 64 },
  { name: "frequency_penalty", min: -2, max: 2, step: 0.1, standard: 0 },
  { name: "presence_penalty", min: -2, max: 2, step: 0.1, standard: 0 },
  { name: "xtc_probability", min: 0, max: 1, step: 0.05, standard: 0 },
  { name: "xtc_threshold", min: 0, max: 1, step: 0.05, standard: 0.1 },
  { name: "max_tokens", min: 1, max: 1_000_000, step: 1, standard: null },
  { name: "seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, standard: null },
];

export const PRESETS = {
  standard: {},
  precise: { temperature: 0.1, top_p: 0.9 },
  balanced: { temperature: 0.7, top_p: 0.95, min_p: 0.05 },
  creative: { temperature: 1.1, min_p: 0.08, presence_penalty: 0.3 },
};

/** The preset that sets the same, or null. */
export function presetOf(sampling) {
  const same = ([, preset]) => {
    const names = new Set([...Object.keys(preset), ...Object.keys(sampling)]);
    return [...names].every((name) => preset[name] === sampling[name]);
  };
  return Object.entries(PRESETS).find(same)?.[0] ?? null;
}

/** The parameters that the fields of a form have; an empty field sets none. */
export function samplingOf(fields) {
  const set = PARAMETERS.map(({ name }) => [name, String(fields[name] ?? "").trim().replace(",", ".")]);
  return Object.fromEntries(set.filter(([, text]) => text).map(([name, text]) => [name, Number(text)]));
}
