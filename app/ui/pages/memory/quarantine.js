// Files that failed: why, and how to be rid of them. Nothing is shown while there are none.

import { html } from "../../lib/dom.js";
import { ago, bytes, count } from "../../lib/format.js";
import { t } from "../../lib/strings.js";
import { api } from "../../lib/transport.js";
import { ask } from "../../parts/dialog.js";
import { say } from "../../parts/toast.js";
import { refresh } from "./live.js";

export function Quarantine({ list }) {
  if (!list?.data.length) return null;
  const { data, bytes: all } = list;
  return html`<section class="card stack" data-test="memory-quarantine">
    <div class="row apart"><h2>${t("quarantine.title")}</h2><button type="button" class="button" onClick=${() => empty(data.length, all)} data-test="quarantine-empty">${t("quarantine.empty")}</button></div>
    <p class="note">${t("quarantine.text", { n: data.length, count: count(data.length), bytes: bytes(all) })}</p>
    <div class="scroll-x"><table class="table"><thead><tr><th>${t("quarantine.file")}</th><th>${t("quarantine.reason")}</th><th class="figure">${t("quarantine.bytes")}</th><th>${t("quarantine.since")}</th></tr></thead>
      <tbody>${data.map(({ file, fingerprint, reason, bytes: size, since }) => html`<tr key=${fingerprint + file}>
        <th scope="row" class="clip"><code title=${file}>${file}</code></th><td>${reason}</td><td class="figure">${bytes(size)}</td><td class="when">${since ? ago(since) : t("memory.unknown")}</td></tr>`)}</tbody></table></div>
  </section>`;
}

async function empty(files, all) {
  const text = t("quarantine.ask", { n: files, count: count(files), bytes: bytes(all) });
  if (!(await ask({ title: t("quarantine.empty.title"), text, yes: t("quarantine.empty"), danger: true }))) return;
  try {
    const { freed_bytes } = await api.post("/v1/slots/quarantine/empty", { dry_run: false });
    say(t("files.freed", { bytes: bytes(freed_bytes) }));
  } catch (error) {
    say(error.message);
  }
  await refresh();
}
