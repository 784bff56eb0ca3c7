// The message that the address names: a search opens a chat where its words are.

import { html, useEffect, useLayoutEffect, useRef } from "/lib.js";

/** Messages out of sight have no layout yet: their heights are known some frames later. */
const SETTLE_FRAMES = 4;

/** The id of the message, once the branch with it is shown; null without one. */
export function useHit(conversation, { state, messages }, path, place) {
  const id = Number(place) || null;
  const isThere = messages.some((message) => message.id === id);
  useEffect(() => {
    if (state === "ready" && isThere) conversation.show(id);
  }, [id, state, isThere]);
  return path.some((message) => message.id === id) ? id : null;
}

/** Stands before the message, and brings it into view. */
export function Hit() {
  const mark = useRef();
  useLayoutEffect(() => {
    let frames = SETTLE_FRAMES;
    let frame = 0;
    const show = () => {
      mark.current.nextElementSibling?.scrollIntoView({ block: "center" });
      if (frames > 0) frame = requestAnimationFrame(show);
      frames -= 1;
    };
    show();
    return () => cancelAnimationFrame(frame);
  }, []);
  return html`<span class="hit" ref=${mark} data-test="hit"></span>`;
}
