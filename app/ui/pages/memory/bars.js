// The machine's memory and the disk quota, as bars. Each part has a colour, a pattern and a word.

import { bytes, count, html, t } from "/lib.js";
import { loadingNote } from "./words.js";

export function Bars({ now }) {
  return html`
    <section class="card stack" data-test="memory-bars">
      <h2>${t("memory.bars")}</h2>
      ${now ? usage(now) : loadingNote()}
    </section>`;
}

function usage(now) {
  return html`
    <${Bar} title=${t("memory.machine")} ...${machineParts(now)} />
    ${now.disk && html`<${Bar} title=${t("memory.disk")} ...${diskParts(now.disk)} />`}`;
}

/** What uses the machine's memory. `bytes` is null where it is unknown. Pure but for the language. */
export function machineParts({ machine, model, cells, warm }) {
  const isLoaded = model.residency !== "unloaded";
  const hot = isLoaded ? cells.used_bytes : 0;
  const cellsUsed = t("memory.cells.used", { used: cells.used_tokens, all: cells.tokens });
  const parts = [
    {
      kind: "weights",
      bytes: isLoaded ? model.weights_bytes : 0,
      note: t(`memory.${model.residency}`),
    },
    { kind: "hot", bytes: hot, note: cellsUsed },
    { kind: "reserved", bytes: isLoaded ? reservedBytes(cells) : 0 },
    { kind: "warm", bytes: warm.bytes, note: t("memory.of", { bytes: warm.budget_bytes }) },
  ];
  if (!machine) return { parts, total: null };
  const { total_bytes: total, available_bytes: free } = machine;
  if (free != null) {
    parts.push({ kind: "others", bytes: Math.max(0, total - free - sumOf(parts)) });
  }
  parts.push({ kind: "free", bytes: free });
  return { parts, total };
}

const reservedBytes = ({ bytes, used_bytes }) => (bytes == null ? null : bytes - (used_bytes ?? 0));

/** Saved KV against the disk quota. Pure but for the language. */
export function diskParts({ bytes: saved, quota_bytes: quota, free_bytes: free }) {
  const usage = quota ? t("memory.percent", { percent: percent(saved, quota) }) : null;
  const parts = [
    { kind: "cold", bytes: saved, note: usage },
    {
      kind: "room",
      bytes: quota == null ? null : Math.max(0, quota - saved),
      note: t("memory.disk.free", { bytes: free }),
    },
  ];
  return { parts, total: quota ?? saved };
}

function percent(part, whole) {
  const hundredths = Math.round((part / whole) * 100);
  return part && !hundredths ? "< 1" : count(hundredths);
}

const sumOf = (parts) => parts.reduce((sum, part) => sum + (part.bytes ?? 0), 0);

const nameOf = (kind) => t(`memory.part.${kind}`);

function Bar({ title, parts, total }) {
  const whole = Math.max(total ?? 0, sumOf(parts), 1);
  const shown = parts.filter((part) => part.bytes);
  const inWords = shown.map(({ kind, bytes: size }) => `${nameOf(kind)} ${bytes(size)}`).join(", ");
  return html`
    <div class="stack usage">
      <div class="row apart">
        <h3>${title}</h3>
        ${total != null && html`<span class="figure note">${bytes(total)}</span>`}
      </div>
      <div class="usage-bar" role="img" aria-label=${`${title}: ${inWords}`}>
        ${parts.map(({ kind, bytes: size }) => size > 0 && html`
          <i key=${kind} class="part ${kind}" style=${{ flexGrow: size / whole }}></i>`)}
      </div>
      <dl class="usage-legend">
        ${parts.map((part) => html`<${LegendEntry} key=${part.kind} ...${part} />`)}
      </dl>
    </div>`;
}

function LegendEntry({ kind, bytes: size, note }) {
  return html`
    <div>
      <dt><i class="swatch part ${kind}"></i>${nameOf(kind)}</dt>
      <dd class="figure">
        ${size == null ? t("memory.unknown") : bytes(size)}
        ${note && html`<span class="note">${note}</span>`}
      </dd>
    </div>`;
}
