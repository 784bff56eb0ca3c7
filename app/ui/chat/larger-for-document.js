// Under a document that does not fit into the context: the smallest context that holds it.

import { bytes, html, t, useState } from "/lib.js";
import { Button } from "/parts.js";
import { setContext, useContextSizes } from "./larger.js";

/** Tokens for the question and its answer. */
const MIN_REST = 512;

/** `view`: the document's. `onDone`: the context is larger. */
export function LargerForDocument({ view, onDone }) {
  const known = useContextSizes();
  const [isBusy, setBusy] = useState(false);
  if (!known) return null;
  const { fixed, trained, tokens, sizes, perToken } = known;
  const perContext = view.context_tokens / tokens;
  const size = sizes.find((n) => n * perContext >= view.tokens + MIN_REST);
  if (!size) return html`<p class="note larger-for-document">${t("room.document.never", { n: trained })}</p>`;
  if (fixed) return html`<p class="note larger-for-document">${t("room.larger.fixed", { by: fixed })}</p>`;
  const enlarge = async () => {
    setBusy(true);
    if (await setContext(size)) onDone();
    setBusy(false);
  };
  const cost = perToken ? ` (${bytes(size * perToken)})` : "";
  return html`
    <div class="row larger-for-document">
      <${Button} disabled=${isBusy} onClick=${enlarge} data-test="larger-for-document">
        ${t("room.document.larger", { n: size })}${cost}
      <//>
      <p class="note grow">${t("room.larger.long")}</p>
    </div>`;
}
