// Numbers, sizes and times as text, in the page's language.

const formatters = new Map();

/** A cached `Intl` formatter for the page's language: making one costs more than using it. */
export function formatter(Kind, options) {
  const { lang } = document.documentElement;
  const key = Kind.name + lang + JSON.stringify(options);
  if (!formatters.has(key)) formatters.set(key, new Kind(lang, options));
  return formatters.get(key);
}

const number = (options) => formatter(Intl.NumberFormat, options);

/** 6214 -> 6,214 */
export const count = (n) => number().format(n);

/** Bytes, in units of 1024, three digits: 1.42 GiB */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = n;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${number({ maximumSignificantDigits: 3 }).format(value)} ${units[unit]}`;
}

/** A duration in milliseconds: 84 ms, 3.1 s, 2 min */
export function duration(ms) {
  if (ms < 1) return `${number({ maximumSignificantDigits: 1 }).format(ms)} ms`;
  if (ms < 1000) return `${count(Math.round(ms))} ms`;
  if (ms < 100_000) {
    const digits = ms < 10_000 ? 2 : 3;
    return `${number({ maximumSignificantDigits: digits }).format(ms / 1000)} s`;
  }
  return `${count(Math.round(ms / 60_000))} min`;
}

/** A duration as people say it: 84 ms, 0.4 s, 31 s, 2 min */
export function seconds(ms) {
  if (ms < 95 || ms >= 9950) return ms < 95 ? duration(ms) : duration(Math.round(ms / 1000) * 1000);
  return `${number({ minimumFractionDigits: 1, maximumFractionDigits: 1 }).format(ms / 1000)} s`;
}

/** The file's name of instructions as people read it: kitchen-light -> kitchen light */
export const shownName = (slug) => slug.replace(/(\w)-(?=\w)/g, "$1 ");

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const WEEK = 7 * DAY;

/** Age of a Unix time in seconds: "3 min. ago", or the date from a week on. */
export function ago(seconds, now = Date.now() / 1000) {
  const age = Math.max(0, now - seconds);
  const relative = formatter(Intl.RelativeTimeFormat, { numeric: "auto", style: "short" });
  if (age < MINUTE) return relative.format(0, "second");
  if (age < HOUR) return relative.format(-Math.floor(age / MINUTE), "minute");
  if (age < DAY) return relative.format(-Math.floor(age / HOUR), "hour");
  if (age < WEEK) return relative.format(-Math.floor(age / DAY), "day");
  return formatter(Intl.DateTimeFormat, { dateStyle: "medium" }).format(seconds * 1000);
}
