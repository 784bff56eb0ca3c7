// The title of a chat. A click edits it in place: Enter saves, Escape leaves it as it was.

import { html, isComposing, t, useEffect, useLayoutEffect, useRef, useState } from "/lib.js";
import { useInPlace } from "/parts.js";
import { isPrivate, rename } from "./chats.js";

const MAX_LETTERS = 200;

export function Title({ id, chat }) {
  const [editing, setEditing] = useState(false);
  const frame = useInPlace(editing, "button");
  const text = chat?.title ?? t(isPrivate(id) ? "chat.private.new" : "chat.new");
  // Browsers write it into their history.
  const shown = isPrivate(id) ? t("chat.private.title") : text;
  useEffect(() => {
    document.title = `${shown} – Hob`;
  }, [shown]);
  return html`
    <h1 class="grow" dir="auto" ref=${frame} data-test=${editing ? null : "title"}>
      ${editing && html`<${TitleField} id=${id} text=${text} close=${() => setEditing(false)} />`}
      ${!editing && (chat
        ? html`
          <button
            type="button"
            class="title-button"
            dir="auto"
            title=${t("chat.rename")}
            onClick=${() => setEditing(true)}
          >
            ${text}
          </button>`
        : text)}
    </h1>`;
}

function TitleField({ id, text, close }) {
  const field = useRef();
  const isOver = useRef(false);
  useLayoutEffect(() => field.current.select(), []);
  const leave = () => {
    // The field loses the focus when it is removed.
    isOver.current = true;
    close();
  };
  const save = ({ currentTarget }) => {
    if (isOver.current) return;
    const title = currentTarget.value.trim();
    if (title && title !== text) rename(id, title);
    leave();
  };
  const handleKey = (event) => {
    if (isComposing(event)) return;
    if (event.key === "Enter") save(event);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`
    <input
      class="input title-field"
      dir="auto"
      maxlength=${MAX_LETTERS}
      defaultValue=${text}
      aria-label=${t("chat.rename.label")}
      ref=${field}
      onKeyDown=${handleKey}
      onBlur=${save}
      data-test="title-field"
    />`;
}
