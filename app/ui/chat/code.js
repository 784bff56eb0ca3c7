// A block of code: its language, a switch that wraps its lines, and Copy.

import { classes, html, importModule, lazy, pure, t, useMemo, useState } from "/lib.js";
import { copy } from "/parts.js";

/** Loaded with the first block of code; until then it is in one colour. */
const colours = lazy(() => importModule("/lib/highlight.js"));

export const Code = pure(({ code, language }) => {
  const [isWrapped, setWrapped] = useState(false);
  const text = code.replace(/\n$/, "");
  const module = colours.use();
  const pieces = useMemo(() => module?.highlight(text, language) ?? [[null, text]], [module, text, language]);
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
      <pre tabindex="0" class=${classes(isWrapped && "wrapped")}>
        <code>${pieces.map(coloured)}</code>
      </pre>
    </div>`;
});

const coloured = ([kind, text]) => (kind ? html`<span class=${`code-${kind}`}>${text}</span>` : text);
