// Asks before the daemon switches to another model, and says what that changes.

import { html, t } from "/lib.js";
import { ask } from "/parts.js";
import { switchTo } from "./switching.js";

/** `ctx`: the context that it should have; `verdict`: whether it fits with that. */
export async function askToSwitch(model, list, { ctx, verdict }) {
  const running = list.data.find(({ current }) => current);
  const force = verdict === "too_large";
  const lines = consequences({ ...model, verdict }, running, list.fixed);
  const isAgreed = await ask({
    title: t("models.ask", { name: model.name }),
    text: html`${lines.map((line) => html`<span class="line">${line}</span>`)}`,
    yes: t(force ? "models.run.anyway" : "models.run"),
    danger: force,
  });
  return isAgreed && switchTo(model, { ctx, force });
}

/** What running `model` instead of `running` changes. `fixed`: what chooses the model at each start. */
export function consequences(model, running, fixed) {
  const { conversations, bytes } = running?.kept ?? {};
  return [
    conversations > 0 && t("models.ask.saved", { name: running.name, n: conversations, bytes }),
    !conversations && t("models.ask.text"),
    model.kept?.conversations > 0 &&
      t("models.ask.back", { name: model.name, n: model.kept.conversations }),
    t("models.ask.restart"),
    fixed && t("models.ask.once", { by: fixed }),
    model.pooling && t("models.ask.embeds"),
    model.verdict === "tight" && t("models.ask.tight"),
    model.verdict === "too_large" && t("models.ask.large"),
  ].filter(Boolean);
}
