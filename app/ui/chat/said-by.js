// The model that gave an answer, where another one runs now.

import { html, t, useStore } from "/lib.js";
import { status } from "./chats.js";

export function SaidBy({ model }) {
  const running = useStore(status, ({ now }) => now?.model);
  if (!model || !running || model === running) return null;
  return html`<span class="said-by" data-test="said-by">${t("message.said-by", { model })}</span>`;
}
