// Reads every byte that is kept, or what one chat is made of, and tells what is damaged.

import { api, html, isCancelled, t, useEffect, useRef, useState } from "/lib.js";
import { Icon, IconButton } from "/parts.js";
import { refresh } from "./live.js";
import { keptName } from "./words.js";

export function Verify({ body, name, titles, onClose }) {
  const [progress, setProgress] = useState(null);
  const [result, setResult] = useState(null);
  const [error, setError] = useState(null);
  const stopped = useRef();
  useEffect(() => {
    stopped.current = new AbortController();
    run(stopped.current.signal);
    return () => stopped.current.abort();
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
  const { done_bytes = 0, total_bytes = 0 } = progress ?? {};
  return html`<div class="panel stack" role="status">
    <div class="row apart"><strong class="clip">${title}</strong>
      <${IconButton} icon="close" small label=${result || error ? t("close") : t("verify.stop")} onClick=${onClose} data-test="verify-close" /></div>
    ${error && html`<p class="error">${error.message}</p>`}
    ${!result && !error && html`<progress max=${total_bytes || 1} value=${done_bytes} aria-label=${title}></progress>
      <p class="note figure">${t("verify.progress", { done: done_bytes, all: total_bytes })}</p>`}
    ${result && html`<${Result} result=${result} titles=${titles} />`}
  </div>`;
}

function Result({ result, titles }) {
  const { files, bytes, whole, faults, costs, quarantined } = result;
  return html`<p class="row" data-test="verify-result" data-whole=${whole}><${Icon} name=${whole ? "check" : "warning"} /><span class="grow">${t("verify.read", { n: files, bytes })}
      ${whole ? t("verify.whole") : t("verify.faults", { n: faults.length })}</span></p>
    ${faults.length > 0 && html`<ul>${faults.map(({ path, reason }) => html`<li><code class="clip">${path.split(/[\\/]/).at(-1)}</code> <span class="note">${reason}</span></li>`)}</ul>`}
    ${costs.map(({ conversation, tokens, lost_tokens }) => html`<p class="note">${t("verify.cost", { name: keptName(conversation, titles), lost: lost_tokens, tokens })}</p>`)}
    ${quarantined > 0 && html`<p class="note">${t("verify.quarantined", { n: quarantined })}</p>`}`;
}
