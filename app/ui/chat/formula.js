// A formula. Where the converter to MathML finds an error, and until it is loaded, the formula is shown as it was
// written.

import { classes, html, importModule, lazy, pure } from "/lib.js";

const converter = lazy(() => importModule("/chat/mathml.js"));

export const Formula = pure(({ tex, isDisplay, isCut }) => {
  const module = converter.use(!isCut);
  const drawn = !isCut && module?.mathml(tex, isDisplay);
  const shape = classes("formula", isDisplay && "display");
  if (!drawn) return html`<code class=${shape} dir="ltr">${tex}</code>`;
  // A formula of its own scrolls, with the keyboard too.
  return html`<span class=${shape} dir="ltr" tabindex=${isDisplay ? 0 : null}>${drawn}</span>`;
});
