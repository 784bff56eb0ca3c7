// Markdown as components, loaded with the first message. While a text grows, only its unfinished end is parsed and
// drawn.

import { html, pure, t, useMemo } from "/lib.js";
import { createGrowingText } from "/lib/markdown/growing.js";
import { elements } from "/lib/markdown/tree.js";
import { Code } from "./code.js";
import { fences } from "./fences.js";
import { Formula } from "./formula.js";

export const Markdown = pure(({ text, isOver }) => {
  const growing = useMemo(createGrowingText, []);
  const { chunks, rest } = useMemo(() => growing.update(text, Boolean(isOver)), [text, isOver]);
  return html`
    ${chunks.map((blocks, index) => html`<${Blocks} key=${index} blocks=${blocks} />`)}
    ${rest && html`<p class="html">${rest}</p>`}`;
});

const Blocks = pure(({ blocks }) => blocks.map((block, index) => html`<${Block} key=${index} block=${block} />`));

const Block = pure(({ block }) => {
  try {
    return elements(block.tokens, { Code, Formula, Table });
  } catch (error) {
    console.warn("Markdown is shown as plain text:", error.message);
    return html`<pre class="plain" tabindex="0">${block.source}</pre>`;
  }
});

/** A wide table scrolls, with the keyboard too. */
const Table = ({ children }) => html`
  <div class="wide" role="group" aria-label=${t("message.table")} tabindex="0">
    <table dir="auto">${children}</table>
  </div>`;

/** A text as it was written, but for its fenced code. */
export const WithCode = pure(({ text }) =>
  fences(text).map(({ text, code, language }) =>
    code === undefined ? text : html`<${Code} code=${code} language=${language} />`
  )
);
