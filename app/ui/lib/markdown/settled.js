// A growing text without the end of which the next letters decide what it is. Pure.

/** Markup alone: a list, a rule, a heading, a quote or a table may follow. */
const MARKUP_LINE = /(^|\n)[ \t]*(?:[-=*+_>#|:`~ \t]+|\d{1,9}[.)]?|[-*+][ \t]+\[[ xX]?\]?|\[[^\]\n]*\]:[^\n]*)$/;
const TABLE_ROW = /(^|\n)[ \t]*\|[^\n]*\n?$/;
const MARKUP_END = /[*_~`\\]+$/;

/** An end is held back for one line at most, the first row of a table for two. */
export function settled(text) {
  const begin = text.lastIndexOf("\n", text.length - 2) + 1;
  const before = text.lastIndexOf("\n", begin - 2) + 1;
  const head = text.slice(0, before);
  let end = text.slice(before).replace(MARKUP_END, "").replace(MARKUP_LINE, "$1");
  const row = TABLE_ROW.exec(end);
  if (row && !/\|[^\n]*\n$/.test(head + end.slice(0, row.index + row[1].length))) {
    end = end.slice(0, row.index + row[1].length);
  }
  return head + end;
}
