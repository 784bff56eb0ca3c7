// The chats at the side: hidden by whoever wants room, and behind a button where there is none.

import { createStore, html, preferences, t } from "/lib.js";
import { IconButton } from "./button.js";

/** Whether the side lies over the page, on a narrow window. */
export const side = createStore({ open: false });

const isNarrow = matchMedia("(max-width: 760px)");

/** Shows the side; without a wish, the other way round. */
export function showSide(wish) {
  if (isNarrow.matches) side.set(({ open }) => ({ open: wish ?? !open }));
  else preferences.set(({ sidebar }) => ({ sidebar: wish ?? !sidebar }));
}

export const ShowSide = () => html`<${IconButton} class="show-side" icon="side" label=${t("side.show")} data-test="show-side" onClick=${() => showSide()} />`;
