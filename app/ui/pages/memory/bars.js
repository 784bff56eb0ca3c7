// The machine's memory and the disk's quota, as bars. Each part has a colour, a pattern and a word.

import { bytes, count, html, t } from "/lib.js";
import { reading } from "./words.js";

export function Bars({ now }) {
  return html`<section class="card stack" data-test="memory-bars">
    <h2>${t("memory.bars")}</h2>
    ${now ? html`
      <${Bar} title=${t("memory.machine")} ...${machine(now)} />
      ${now.disk ? html`<${Bar} title=${t("memory.disk")} ...${disk(now.disk)} />` : html`<p class="note">${t("memory.nothing-kept")}</p>`}
    ` : reading()}
  </section>`;
}

/** What takes the machine's memory. What is not known has no part. */
export function machine({ machine, model, cells, warm }) {
  const isHere = model.residency !== "unloaded";
  const used = isHere ? cells.used_bytes : 0;
  const parts = [
    { kind: "weights", bytes: isHere ? model.weights_bytes : 0, note: t(`memory.${model.residency}`) },
    { kind: "hot", bytes: used, note: t("memory.cells.used", { used: cells.used_tokens, all: cells.tokens }) },
    { kind: "reserved", bytes: isHere && cells.bytes != null ? cells.bytes - (used ?? 0) : isHere ? null : 0 },
    { kind: "warm", bytes: warm.bytes, note: t("memory.of", { bytes: warm.budget_bytes }) },
  ];
  if (!machine) return { parts, total: null };
  const ours = parts.reduce((sum, part) => sum + (part.bytes ?? 0), 0);
  const free = machine.available_bytes;
  if (free != null) parts.push({ kind: "others", bytes: Math.max(0, machine.total_bytes - free - ours) });
  parts.push({ kind: "free", bytes: free });
  return { parts, total: machine.total_bytes };
}

/** What is kept, against what may be. */
export function disk({ bytes: kept, quota_bytes, free_bytes }) {
  const parts = [
    { kind: "cold", bytes: kept, note: quota_bytes ? t("memory.percent", { percent: percent(kept, quota_bytes) }) : null },
    { kind: "room", bytes: quota_bytes == null ? null : Math.max(0, quota_bytes - kept), note: t("memory.disk.free", { bytes: free_bytes }) },
  ];
  return { parts, total: quota_bytes ?? kept };
}

function percent(part, whole) {
  const hundredths = Math.round((part / whole) * 100);
  return part && !hundredths ? "< 1" : count(hundredths);
}

function Bar({ title, parts, total }) {
  const sum = parts.reduce((sum, part) => sum + (part.bytes ?? 0), 0);
  const whole = Math.max(total ?? 0, sum, 1);
  const told = parts.filter((part) => part.bytes).map((part) => `${t(`memory.part.${part.kind}`)} ${bytes(part.bytes)}`).join(", ");
  return html`<div class="stack usage">
    <div class="row apart"><h3>${title}</h3>${total != null && html`<span class="figure note">${bytes(total)}</span>`}</div>
    <div class="usage-bar" role="img" aria-label=${`${title}: ${told}`}>
      ${parts.map(({ kind, bytes: size }) => size > 0 && html`<i key=${kind} class="part ${kind}" style=${{ flexGrow: size / whole }}></i>`)}
    </div>
    <dl class="usage-legend">${parts.map(({ kind, bytes: size, note }) => html`<div key=${kind}>
      <dt><i class="swatch part ${kind}"></i>${t(`memory.part.${kind}`)}</dt>
      <dd class="figure">${size == null ? t("memory.unknown") : bytes(size)}${note && html`<span class="note">${note}</span>`}</dd>
    </div>`)}</dl>
  </div>`;
}
