// A text in Markdown, as a component. While it grows only what is new is parsed.

import { html, markdownView, pure, t, useLayoutEffect, useRef } from "/lib.js";
import { copy, openLink } from "/parts.js";

export const Markdown = pure(({ text, isOver }) => {
  const root = useRef();
  const view = useRef();
  useLayoutEffect(() => {
    view.current ??= markdownView(root.current, onCode);
    view.current.update(text);
    if (!isOver) return;
    view.current.end();
    view.current = null; // Should it grow all the same, it is parsed anew.
  }, [text, isOver]);
  return html`<div class="text" ref=${root} onClick=${openLink} onAuxClick=${openLink}></div>`;
});

function onCode(pre, code) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-code";
  button.textContent = t("copy");
  button.onclick = () => copy(code.textContent);
  pre.tabIndex = 0; // So that the keyboard scrolls what is too wide.
  pre.append(button);
}
