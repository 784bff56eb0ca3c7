// Markdown as a component. While the text grows, only the new part is parsed.

import { html, markdownView, pure, t, useLayoutEffect, useRef } from "/lib.js";
import { copy, openLink } from "/parts.js";

export const Markdown = pure(({ text, isOver }) => {
  const root = useRef();
  const view = useRef();
  useLayoutEffect(() => {
    view.current ??= markdownView(root.current, addCopyButton);
    view.current.update(text);
    if (!isOver) return;
    view.current.end();
    view.current = null; // If the text changes after its end, it is parsed again from the start.
  }, [text, isOver]);
  return html`<div class="text" ref=${root} onClick=${openLink} onAuxClick=${openLink}></div>`;
});

function addCopyButton(pre, code) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-code";
  button.textContent = t("copy");
  button.onclick = () => copy(code.textContent);
  pre.tabIndex = 0; // Wide code scrolls with the keyboard too.
  pre.append(button);
}
