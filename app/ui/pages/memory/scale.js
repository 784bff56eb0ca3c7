// What the chart shows of answers, as numbers. Pure.

/** Answers in their order, and the median of either kind. What computed most of its prompt is as cold as one that was told to. */
export function points(turns) {
  const list = turns.filter(({ ttft_ms }) => ttft_ms > 0).map(({ conversation, title, message, at, ttft_ms, tokens, cold }, index) => {
    const { shared = 0, memory = 0, disk = 0, computed = 0 } = tokens ?? {};
    const reused = shared + memory + disk;
    return { key: message ?? `${at} ${index}`, title: title ?? conversation ?? "", at, ttft: ttft_ms, reused, computed, kind: cold || reused < computed ? "cold" : "reused" };
  });
  list.sort((a, b) => a.at - b.at || (a.key < b.key ? -1 : 1));
  const of = (kind) => list.filter((point) => point.kind === kind).map(({ ttft }) => ttft);
  const [reused, cold] = [of("reused"), of("cold")];
  return { list, reused: median(reused), cold: median(cold), of: { reused: reused.length, cold: cold.length } };
}

function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Powers of ten around the values, two of them at least. */
export function ticks(values) {
  const lowest = 10 ** Math.floor(Math.log10(Math.min(...values)));
  const highest = Math.max(10 ** Math.ceil(Math.log10(Math.max(...values))), lowest * 10);
  const marks = [];
  for (let mark = lowest; mark <= highest * 1.001; mark *= 10) marks.push(Number(mark.toPrecision(1)));
  return { lowest, highest, marks };
}

/** Which of `n` points is the nearest at this part of the width. */
export const pick = (n, part) => Math.max(0, Math.min(n - 1, Math.round(part * (n - 1))));
