// Figures as people read them, in the language that is shown.

const made = new Map();

/** What writes a kind of thing in the language that is shown. Made once: that takes longer than its use. */
export function formatter(Kind, options) {
  const { lang } = document.documentElement;
  const key = Kind.name + lang + JSON.stringify(options);
  if (!made.has(key)) made.set(key, new Kind(lang, options));
  return made.get(key);
}

const number = (options) => formatter(Intl.NumberFormat, options);

/** 6214 -> 6,214 */
export const count = (n) => number().format(n);

/** Bytes, in units of 1024, three digits: 1.42 GiB */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${number({ maximumSignificantDigits: 3 }).format(n)} ${units[unit]}`;
}

/** A duration in milliseconds: 84 ms, 3.1 s, 2 min */
export function duration(ms) {
  if (ms < 1) return `${number({ maximumSignificantDigits: 1 }).format(ms)} ms`;
  if (ms < 1000) return `${count(Math.round(ms))} ms`;
  if (ms < 100_000) return `${number({ maximumSignificantDigits: ms < 10_000 ? 2 : 3 }).format(ms / 1000)} s`;
  return `${count(Math.round(ms / 60_000))} min`;
}

/** How long ago, from seconds since 1970: "3 minutes ago" */
export function ago(seconds, now = Date.now() / 1000) {
  const age = Math.max(0, now - seconds);
  const relative = formatter(Intl.RelativeTimeFormat, { numeric: "auto", style: "short" });
  if (age < 60) return relative.format(0, "second");
  for (const [unit, size, most] of [["minute", 60, 3600], ["hour", 3600, 86_400], ["day", 86_400, 7 * 86_400]]) {
    if (age < most) return relative.format(-Math.floor(age / size), unit);
  }
  return formatter(Intl.DateTimeFormat, { dateStyle: "medium" }).format(seconds * 1000);
}
