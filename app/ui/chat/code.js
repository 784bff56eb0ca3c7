// A block of code: its language, a switch that wraps its lines, and Copy.

import { classes, html, pure, t, useMemo, useState } from "/lib.js";
import { highlight } from "/lib/highlight.js";
import { copy } from "/parts.js";

export const Code = pure(({ code, language }) => {
  const [isWrapped, setWrapped] = useState(false);
  const text = code.replace(/\n$/, "");
  const pieces = useMemo(() => highlight(text, language), [text, language]);
  return html`
    <div class="code" dir="ltr">
      <div class="code-bar">
        <span class="grow" data-test="language">${language || t("code.plain")}</span>
        <button
          type="button"
          class="wrap-code"
          aria-pressed=${isWrapped}
          onClick=${() => setWrapped(!isWrapped)}
        >
          ${t("code.wrap")}
        </button>
        <button type="button" class="copy-code" onClick=${() => copy(text)}>${t("copy")}</button>
      </div>
      <pre tabindex="0" class=${classes(isWrapped && "wrapped")} data-language=${language || null}>
        <code>${pieces.map(coloured)}</code>
      </pre>
    </div>`;
});

const coloured = ([kind, text]) => (kind ? html`<span class=${`code-${kind}`}>${text}</span>` : text);
