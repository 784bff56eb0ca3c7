// The button that brings the chats to the side, where there is no room for both.

import { html } from "../lib/dom.js";
import { createStore } from "../lib/store.js";
import { t } from "../lib/strings.js";
import { IconButton } from "./button.js";

export const side = createStore({ open: false });

export const ShowSide = () => html`<${IconButton} class="show-side" icon="side" label=${t("side.show")} data-test="show-side" onClick=${() => side.set(({ open }) => ({ open: !open }))} />`;
