// Asks before another model is run: what happens to what is kept, and whether memory is short.

import { html, t } from "/lib.js";
import { ask } from "/parts.js";
import { switchTo } from "./switching.js";

/** Promises whether the model runs then. `from`: the one that runs now. */
export async function askToSwitch(model, from) {
  const force = model.verdict === "too_large";
  const text = html`${consequences(model, from).map((line) => html`<span class="line">${line}</span>`)}`;
  const yes = t(force ? "models.run.anyway" : "models.run");
  if (!(await ask({ title: t("models.ask", { name: model.name }), text, yes, danger: force }))) return false;
  return switchTo(model, force);
}

/** What will happen, in sentences. */
export function consequences(model, from) {
  const { conversations, bytes } = from?.kept ?? {};
  return [
    conversations > 0 && t("models.ask.kept", { name: from.name, n: conversations, bytes }),
    !conversations && t("models.ask.text"),
    model.kept?.conversations > 0 && t("models.ask.back", { name: model.name, n: model.kept.conversations }),
    t("models.ask.restart"),
    model.pooling && t("models.ask.embeds"),
    model.verdict === "tight" && t("models.ask.tight"),
    model.verdict === "too_large" && t("models.ask.large"),
  ].filter(Boolean);
}
