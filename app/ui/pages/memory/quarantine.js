// Files that failed: why, and how to be rid of them. Nothing is shown while there are none.

import { ago, api, bytes, html, t } from "/lib.js";
import { ask, Button, say, Table, told } from "/parts.js";
import { refresh } from "./live.js";

const COLUMNS = [
  ["quarantine.file", ({ file }) => html`<code title=${file}>${file}</code>`, "clip"],
  ["quarantine.reason", ({ reason }) => reason],
  ["quarantine.bytes", ({ bytes: size }) => bytes(size), "figure"],
  ["quarantine.since", ({ since }) => (since ? ago(since) : t("memory.unknown")), "when"],
];

export function Quarantine({ list }) {
  if (!list?.data.length) return null;
  const { data, bytes: all } = list;
  return html`<section class="card stack" data-test="memory-quarantine">
    <div class="row apart"><h2>${t("quarantine.title")}</h2><${Button} onClick=${() => empty(data.length, all)} data-test="quarantine-empty">${t("quarantine.empty")}<//></div>
    <p class="note">${t("quarantine.text", { n: data.length, bytes: all })}</p>
    <${Table} columns=${COLUMNS} rows=${data} />
  </section>`;
}

async function empty(files, all) {
  const text = t("quarantine.ask", { n: files, bytes: all });
  if (!(await ask({ title: t("quarantine.empty.title"), text, yes: t("quarantine.empty"), danger: true }))) return;
  const freed = await told(api.post("/v1/slots/quarantine/empty", { dry_run: false }));
  if (freed) say(t("files.freed", { bytes: freed.freed_bytes }));
  await refresh();
}
