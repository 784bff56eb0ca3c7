// The text of a message while it is edited.

import { html, isComposing, isSending, t, useLayoutEffect, useRef } from "/lib.js";
import { Button, fitToText, useFitToText } from "/parts.js";

/** `name`: of the field; `save`: of its button; `onWrite`: gets each text; `isBack`: the edit was left and is shown
    again, so that it takes no focus. */
export function Edit({ text, name, save, isBack, onWrite, onSave, onCancel }) {
  const field = useRef();
  useFitToText(field, []);
  // A layout effect: the next key must already go into the field.
  useLayoutEffect(() => {
    if (isBack) return;
    field.current.focus();
    field.current.setSelectionRange(text.length, text.length);
  }, []);
  const write = () => {
    fitToText(field.current);
    onWrite(field.current.value);
  };
  const keep = (event) => {
    event.preventDefault();
    const edited = field.current.value.trim();
    if (edited) onSave(edited);
  };
  const handleKey = (event) => {
    if (isComposing(event)) return;
    if (event.key === "Escape") onCancel();
    else if (isSending(event)) keep(event);
    else return;
    event.stopPropagation();
  };
  return html`
    <form class="stack edit" onSubmit=${keep}>
      <textarea
        class="input"
        dir="auto"
        rows="1"
        ref=${field}
        aria-label=${name}
        defaultValue=${text}
        onInput=${write}
        onKeyDown=${handleKey}
      ></textarea>
      <div class="row">
        <button class="button primary">${save}</button>
        <${Button} onClick=${onCancel}>${t("cancel")}<//>
      </div>
    </form>`;
}
