// The chart's numbers: points, medians and the logarithmic axis. Pure.

import { reusedOf } from "/chat/figures.js";

/** The answers by time. One that computed more tokens than it reused counts as cold. */
export function points(turns) {
  const list = turns.filter(({ ttft_ms }) => ttft_ms > 0).map(pointOf);
  list.sort((a, b) => a.at - b.at || (a.key < b.key ? -1 : 1));
  const timesOf = (kind) => list.filter((point) => point.kind === kind).map(({ ttft }) => ttft);
  const reused = timesOf("reused");
  const cold = timesOf("cold");
  return {
    list,
    median: { reused: median(reused), cold: median(cold) },
    count: { reused: reused.length, cold: cold.length },
  };
}

function pointOf({ conversation, title, message, at, ttft_ms: ttft, tokens, cold }, index) {
  const { computed = 0 } = tokens ?? {};
  const reused = reusedOf(tokens ?? {});
  return {
    key: message ?? `${at} ${index}`,
    title: title ?? conversation ?? "",
    at,
    ttft,
    reused,
    computed,
    kind: cold || reused < computed ? "cold" : "reused",
  };
}

/** Null for no values. */
export function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The powers of ten around the values, at least two of them. */
export function ticks(values) {
  const first = Math.floor(Math.log10(Math.min(...values)));
  const last = Math.max(Math.ceil(Math.log10(Math.max(...values))), first + 1);
  const marks = [];
  for (let power = first; power <= last; power += 1) {
    // Not 0.10000000000000002.
    marks.push(Number((10 ** power).toPrecision(1)));
  }
  return { lowest: 10 ** first, highest: 10 ** last, marks };
}

/** Of `n` evenly spaced points the index nearest to a fraction of the width. */
export const nearest = (n, fraction) =>
  Math.max(0, Math.min(n - 1, Math.round(fraction * (n - 1))));
