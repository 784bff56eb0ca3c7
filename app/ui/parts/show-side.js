// Shows and hides the sidebar. On a narrow window it overlays the page and starts hidden.

import { createStore, html, preferences, t } from "/lib.js";
import { IconButton } from "./button.js";

/** Whether the sidebar overlays the page of a narrow window. */
export const side = createStore({ open: false });

const isNarrow = matchMedia("(max-width: 760px)");
isNarrow.addEventListener("change", () => side.set({ open: false }));

export function showSide(shown) {
  if (isNarrow.matches) side.set(({ open }) => ({ open: shown ?? !open }));
  else preferences.set(({ sidebar }) => ({ sidebar: shown ?? !sidebar }));
}

export function ShowSide() {
  return html`
    <${IconButton}
      class="show-side"
      icon="side"
      label=${t("side.show")}
      data-test="show-side"
      onClick=${() => showSide()}
    />`;
}
