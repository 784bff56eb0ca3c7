// The machine's memory, that of graphics cards and the disk quota, as bars. Each part has a colour, a pattern and a word.

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
  const cards = cardParts(now);
  return html`
    <${Bar} title=${t("memory.machine")} ...${machineParts(now)} />
    ${cards && html`<${Bar} title=${t("memory.device", { device: cards.names })} ...${cards} />`}
    ${now.disk && html`<${Bar} title=${t("memory.disk")} ...${diskParts(now.disk)} />`}`;
}

/** What uses the machine's memory. `bytes` is null where it is unknown. Pure but for the language. */
export function machineParts(now) {
  const { machine, model, warm } = now;
  const onCards = shareOnCards(now);
  const [weights, hot, reserved] = modelParts(now, 1 - onCards.weights, 1 - onCards.kv);
  const parts = [
    { ...weights, note: onCards.weights < 1 && t(`memory.${model.residency}`) },
    hot,
    reserved,
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

/** What uses the memory of graphics cards that have layers of the model; null without one. Pure but for the
    language. */
export function cardParts(now) {
  const cards = cardsOf(now);
  if (!cards.length) return null;
  const onCards = shareOnCards(now);
  const parts = modelParts(now, onCards.weights, onCards.kv);
  const all = (field) => cards.reduce((sum, card) => sum + card[field], 0);
  const [total, free] = [all("total_bytes"), all("free_bytes")];
  parts.push({ kind: "others", bytes: Math.max(0, total - free - sumOf(parts)) });
  parts.push({ kind: "free", bytes: free });
  return { names: cards.map(({ name }) => name).join(", "), parts, total };
}

/** Devices with memory of their own. What one has that shares the machine's is in that. */
const cardsOf = ({ devices = [], offload }) =>
  devices.filter(({ name, shares_memory: shares }) => !shares && offload?.devices.includes(name));

/** Of the weights and of the KV. Layers are taken to be of one size. */
function shareOnCards(now) {
  if (!cardsOf(now).length) return { weights: 0, kv: 0 };
  const { layers, all_layers: all, kv } = now.offload;
  return { weights: layers / all, kv: kv ? layers / all : 0 };
}

/** These shares of what the model takes while it is loaded. */
function modelParts({ model, cells }, ofWeights, ofKv) {
  const isLoaded = model.residency !== "unloaded";
  const part = (kind, size, share) => ({
    kind,
    bytes: !isLoaded ? 0 : size == null ? null : Math.round(size * share),
  });
  const cellsUsed = t("memory.cells.used", { used: cells.used_tokens, all: cells.tokens });
  return [
    part("weights", model.weights_bytes, ofWeights),
    { ...part("hot", cells.used_bytes, ofKv), note: ofKv > 0 && cellsUsed },
    part("reserved", reservedBytes(cells), ofKv),
  ];
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
