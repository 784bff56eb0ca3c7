// Named characters, such as `&auml;`: the browser has the table of all 2,125. Pure but for the browser's parser.
//
// - Only a name of ASCII letters and digits reaches the parser: it makes a character of it, never an element.

const NAME = /^&[A-Za-z][A-Za-z0-9]{1,31};$/;
const MAX_KNOWN = 10_000;
const known = new Map();

/** `&auml;` -> `ä`; a reference that HTML does not define stays as it is. */
export function decodeHTMLStrict(reference) {
  if (!NAME.test(reference)) return reference;
  if (!known.has(reference)) {
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(reference, decoded(reference));
  }
  return known.get(reference);
}

function decoded(reference) {
  // Text in front keeps white space, such as `&Tab;`, out of reach of the parser.
  const { body } = new DOMParser().parseFromString(`.${reference}`, "text/html");
  const character = body.textContent.slice(1);
  // Of `&notit;` HTML would read the `&not`.
  return character.endsWith(";") && reference !== "&semi;" ? reference : character;
}
