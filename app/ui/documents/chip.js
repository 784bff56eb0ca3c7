// A document as a chip: its name, what it costs, what of it is ready. A click shows its text.

import { classes, html, t, useEffect, useState } from "/lib.js";
import { Dialog, Icon, IconButton } from "/parts.js";
import { textOfDocument } from "./api.js";
import { documentInWords, documentState } from "./words.js";

/** `item`: `{ name, id, view, progress, error }`. Without `onRemove` it cannot be removed. */
export function DocumentChip({ item, onRemove }) {
  const [isOpen, setOpen] = useState(false);
  const state = documentState(item);
  const words = documentInWords(item);
  return html`
    <span class=${classes("document-chip", state)} data-test="document-chip" data-state=${state}>
      <button
        type="button"
        class="document-open"
        title=${t("document.show", item)}
        disabled=${!item.id}
        onClick=${() => setOpen(true)}
      >
        <${Icon} name="document" small />
        <span class="document-lines">
          <span class="document-name" dir="auto">${item.name}</span>
          <span class="document-words figure">${words}</span>
        </span>
      </button>
      ${onRemove && html`
        <${IconButton} small icon="close" label=${t("document.take-off", item)} onClick=${onRemove} />`}
      ${state === "reading" && html`<${Bar} progress=${item.progress} words=${words} />`}
    </span>
    ${isOpen && html`<${DocumentText} item=${item} onClose=${() => setOpen(false)} />`}`;
}

export function Bar({ progress, words }) {
  const { tokens_ready: ready, tokens_total: total } = progress;
  return html`
    <progress
      class="document-bar"
      max=${total}
      value=${ready}
      aria-label=${t("document.reading")}
      aria-valuetext=${words}
    ></progress>`;
}

/** A document of a message that was sent: `{ id, name }`. */
export function SentDocument({ document }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <button
      type="button"
      class="document-chip document-open"
      title=${t("document.show", document)}
      onClick=${() => setOpen(true)}
      data-test="sent-document"
    >
      <${Icon} name="document" small /><span class="document-name" dir="auto">${document.name}</span>
    </button>
    ${isOpen && html`<${DocumentText} item=${document} onClose=${() => setOpen(false)} />`}`;
}

function DocumentText({ item, onClose }) {
  const [text, setText] = useState(null);
  useEffect(() => {
    const gone = ({ code, message }) => setText(code === "document_not_found" ? t("document.gone") : message);
    textOfDocument(item.id).then(setText, gone);
  }, []);
  return html`
    <${Dialog} title=${item.name} wide toRead onClose=${onClose} test="document-text">
      <pre class="document-text" tabindex="0" dir="auto">${text ?? ""}</pre>
    <//>`;
}
