import { help, html, t, useStore } from "/lib.js";
import { Button } from "/parts.js";
import { status } from "/chat/chats.js";
import { limitWords } from "/pages/models/context.js";

export function About() {
  const { now } = useStore(status);
  return html`
    <section class="card stack">
      <h2>${t("settings.about")}</h2>
      ${now ? html`<${Facts} now=${now} />` : html`<p class="note">${t("shell.starting")}</p>`}
      <div>
        <${Button} onClick=${() => help.set({ open: true })}>${t("keys.title")}<//>
      </div>
    </section>`;
}

function Facts({ now }) {
  const { conversation_tokens: tokens, context_limit: limit, trained_tokens: trained, upstream } = now;
  // An engine at another address has a fingerprint and a limit of its own, and may say nothing of its context.
  const reason = !upstream && limitWords(tokens, limit, trained);
  const context = [t("about.tokens", { tokens }), reason].filter(Boolean);
  return html`
    <dl class="keys">
      <dt>${t("about.version")}</dt><dd>${now.version}</dd>
      <dt>${t("about.model")}</dt><dd>${now.model}</dd>
      ${!upstream && html`<dt>${t("about.fingerprint")}</dt><dd><code>${now.fingerprint}</code></dd>`}
      ${tokens > 0 && html`
        <dt>${t("about.context")}</dt><dd class="figure" data-test="context">${context.join(" · ")}</dd>`}
    </dl>`;
}
