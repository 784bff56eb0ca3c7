// Files that failed their check, and how to delete them. Nothing is shown while there are none.

import { ago, api, bytes, html, t } from "/lib.js";
import { ask, Button, orToast, toast } from "/parts.js";
import { Table } from "/parts/table.js";
import { refresh } from "./live.js";

const COLUMNS = [
  ["quarantine.file", ({ file }) => html`<code title=${file}>${file}</code>`, "clip"],
  ["quarantine.reason", ({ reason }) => reason],
  ["quarantine.bytes", ({ bytes: size }) => bytes(size), "figure"],
  ["quarantine.since", ({ since }) => (since ? ago(since) : t("memory.unknown")), "when"],
];

export function Quarantine({ list }) {
  if (!list?.data.length) return null;
  const { data, bytes: total } = list;
  return html`
    <section class="card stack" data-test="memory-quarantine">
      <div class="row apart">
        <h2>${t("quarantine.title")}</h2>
        <${Button} onClick=${() => empty(data.length, total)} data-test="quarantine-empty">
          ${t("quarantine.empty")}
        <//>
      </div>
      <p class="note">${t("quarantine.text", { n: data.length, bytes: total })}</p>
      <${Table} label=${t("quarantine.title")} columns=${COLUMNS} rows=${data} />
    </section>`;
}

async function empty(files, total) {
  const isAgreed = await ask({
    title: t("quarantine.empty.title"),
    text: t("quarantine.ask", { n: files, bytes: total }),
    yes: t("quarantine.empty"),
    danger: true,
  });
  if (!isAgreed) return;
  const done = await orToast(api.post("/v1/slots/quarantine/empty", { dry_run: false }));
  if (done) toast(t("files.freed", { bytes: done.freed_bytes }));
  await refresh();
}
