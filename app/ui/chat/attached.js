// The documents above the composer's field, and the three ways by which they come there: the button, a
// paste and a drop (which the page takes).

import { html, importModule, lazy, t, useEffect, useRef, useStore, withTexts } from "/lib.js";
import { IconButton } from "/parts.js";
import { DocumentChip } from "../documents/chip.js";
import { documentState } from "../documents/words.js";

const larger = lazy(() => withTexts(importModule("/chat/larger-for-document.js")));

/** A longer paste becomes a document. */
const MAX_PASTED_CHARS = 2000;

/** `focusComposer()`: the next thing is to write, after a document came or went. */
export function AttachedDocuments({ attachments, focusComposer }) {
  const items = useStore(attachments.store, ({ items }) => items);
  useEffect(() => {
    if (items.length) focusComposer();
  }, [items.length]);
  const tooLong = items.find((item) => documentState(item) === "too-long");
  const offer = larger.use(Boolean(tooLong));
  if (!items.length) return null;
  const remove = ({ key }) => {
    attachments.remove(key);
    focusComposer();
  };
  return html`
    <div class="attached" role="group" aria-label=${t("attach.list")} data-test="attached">
      ${items.map((item) => html`
        <${DocumentChip} key=${item.key} item=${item} onRemove=${() => remove(item)} />`)}
    </div>
    ${tooLong && offer && html`
      <${offer.LargerForDocument} key=${tooLong.key} view=${tooLong.view} onDone=${attachments.lookAgain} />`}`;
}

export function Attach({ attachments }) {
  const field = useRef();
  const chosen = (event) => {
    [...event.target.files].forEach((file) => attachments.add(file));
    event.target.value = "";
  };
  return html`
    <${IconButton}
      icon="attach"
      label=${t("attach")}
      onClick=${() => field.current.click()}
      data-test="attach"
    />
    <input type="file" multiple hidden ref=${field} onChange=${chosen} data-test="attach-file" />`;
}

/** A paste attaches its files, and a long text. A short text is written, also beside files: office programs
    put a picture of the words on the clipboard with the words. */
export function takePaste(event, attachments) {
  const files = [...event.clipboardData.files];
  const text = event.clipboardData.getData("text/plain");
  const isLong = text.length > MAX_PASTED_CHARS;
  const isBeside = (file) => Boolean(text) && file.type.startsWith("image/");
  files.forEach((file) => attachments.add(file, { isBeside: isBeside(file) }));
  if (isLong) attachments.add(new Blob([text]), { name: t("attach.pasted"), isPasted: true });
  if (isLong || (files.length && !text)) event.preventDefault();
}
