// The fenced code in a text that is otherwise shown as it was written. Pure.

const OPEN = /^(`{3,}|~{3,})([^`]*)$/;
const MAX_LANGUAGE_LETTERS = 40;

/** `{ text }` and `{ code, language }` in order. A fence without its end is text. */
export function fences(text) {
  const parts = [];
  let plain = [];
  let open = null;
  const flush = () => {
    if (plain.length) parts.push({ text: plain.join("\n") });
    plain = [];
  };
  for (const line of text.split("\n")) {
    if (open && isEnd(line, open.marker)) {
      flush();
      parts.push({ code: open.lines.slice(1).join("\n"), language: open.language });
      open = null;
    } else if (open) {
      open.lines.push(line);
    } else {
      const [, marker, info] = OPEN.exec(line) ?? [];
      if (!marker) plain.push(line);
      else open = { marker, lines: [line], language: info.trim().split(/\s/)[0].slice(0, MAX_LANGUAGE_LETTERS) };
    }
  }
  if (open) plain.push(...open.lines);
  flush();
  return parts;
}

function isEnd(line, marker) {
  const end = line.trim();
  return end.length >= marker.length && end === marker[0].repeat(end.length);
}
