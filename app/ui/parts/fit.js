// Fields that are as high as their text.

import { preferences, useLayoutEffect, useStore } from "/lib.js";

/** Makes a field as high as its text; the style bounds it. Meanwhile the page becomes no shorter: it would scroll. */
export function fitToText(field) {
  const { style } = field;
  style.marginBottom = style.height;
  style.height = "auto";
  const border = field.offsetHeight - field.clientHeight;
  style.height = `${field.scrollHeight + border}px`;
  style.marginBottom = "";
}

/** A hook: does so when one of `texts` has changed, when the window has, and when the list beside the page comes or
    goes. */
export function useFitToText(field, texts) {
  const sidebar = useStore(preferences, (all) => all.sidebar);
  useLayoutEffect(() => fitToText(field.current), [...texts, sidebar]);
  useLayoutEffect(() => {
    const fit = () => fitToText(field.current);
    window.addEventListener("resize", fit);
    return () => window.removeEventListener("resize", fit);
  }, []);
}
