// Verifies all saved KV, or that of one conversation, and shows what is damaged.

import { api, html, isCancelled, t, useEffect, useState } from "/lib.js";
import { Icon, IconButton } from "/parts.js";
import { refresh } from "./live.js";
import { savedName } from "./words.js";

/** Starts when it is rendered, stops when it is removed. `body`: what to verify. */
export function Verify({ body, name, titles, onClose }) {
  const [progress, setProgress] = useState(null);
  const [result, setResult] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const abort = new AbortController();
    run(abort.signal);
    return () => abort.abort();
  }, []);
  async function run(signal) {
    try {
      for await (const event of api.stream("POST", "/v1/slots/verify", { body, signal })) {
        setProgress(event);
        if (event.result) setResult(event.result);
      }
      await refresh();
    } catch (error) {
      if (!isCancelled(error)) setError(error);
    }
  }
  const title = name ? t("verify.one", { name }) : t("verify.all");
  const isOver = result || error;
  return html`
    <div class="panel stack" role="status">
      <div class="row apart">
        <strong class="clip">${title}</strong>
        <${IconButton}
          icon="close"
          small
          label=${isOver ? t("close") : t("verify.stop")}
          onClick=${onClose}
          data-test="verify-close"
        />
      </div>
      ${error && html`<p class="error">${error.message}</p>`}
      ${!isOver && html`<${Progress} title=${title} ...${progress} />`}
      ${result && html`<${Result} result=${result} titles=${titles} />`}
    </div>`;
}

function Progress({ title, done_bytes: done = 0, total_bytes: total = 0 }) {
  return html`
    <progress max=${total || 1} value=${done} aria-label=${title}></progress>
    <p class="note figure">${t("verify.progress", { done, all: total })}</p>`;
}

function Result({ result, titles }) {
  const { files, bytes, whole, faults, costs, quarantined } = result;
  const verdict = whole ? t("verify.whole") : t("verify.faults", { n: faults.length });
  return html`
    <p class="row" data-test="verify-result" data-whole=${whole}>
      <${Icon} name=${whole ? "check" : "warning"} />
      <span class="grow">${t("verify.read", { n: files, bytes })}${" "}${verdict}</span>
    </p>
    ${faults.length > 0 && html`<ul>${faults.map((fault) => html`<${Fault} ...${fault} />`)}</ul>`}
    ${costs.map(({ conversation, tokens, lost_tokens: lost }) => html`
      <p class="note">
        ${t("verify.cost", { name: savedName(conversation, titles), lost, tokens })}
      </p>`)}
    ${quarantined > 0 && html`<p class="note">${t("verify.quarantined", { n: quarantined })}</p>`}`;
}

function Fault({ path, reason }) {
  const name = path.split(/[\\/]/).at(-1);
  return html`
    <li><code class="clip">${name}</code>${" "}<span class="note">${reason}</span></li>`;
}
