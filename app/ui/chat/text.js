// The text of a message. Until the parser is loaded it is shown as it was written.

import { html, importModule, lazy } from "/lib.js";
import { openLink } from "/parts.js";

export const richText = lazy(() => importModule("/chat/rich-text.js"));

export function AnswerText({ text, isOver }) {
  const rich = richText.use();
  return html`
    <div class="text" dir="auto" onClick=${openLink} onAuxClick=${openLink}>
      ${rich
        ? html`<${rich.Markdown} text=${text} isOver=${isOver} />`
        : html`<p class="html" data-test="raw">${text}</p>`}
    </div>`;
}

export function UserText({ text }) {
  const rich = richText.use();
  return html`<div class="bubble" dir="auto">${rich ? html`<${rich.WithCode} text=${text} />` : text}</div>`;
}
