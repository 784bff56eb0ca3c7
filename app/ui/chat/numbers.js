// The line under an answer: when it began, how fast it came, how much of its prompt was remembered. A
// click shows the rest.

import { html, t, useState } from "/lib.js";
import { Button, Dialog } from "/parts.js";
import { originsOf, rememberedOf } from "./figures.js";
import { Miss } from "./miss.js";

/** Less is not worth a word. */
const MIN_SAVED_MS = 1000;

/** `finish`: how the answer ended. `answerCold`: null where it cannot be answered again. */
export function Numbers({ finish, answerCold, busy }) {
  const [isOpen, setOpen] = useState(false);
  const parts = partsOf(finish.hob);
  return html`
    <button
      type="button"
      class="numbers"
      aria-expanded=${isOpen}
      title=${t("numbers.more")}
      onClick=${() => setOpen(!isOpen)}
      data-test="numbers"
    >
      ${parts.map((part, index) => html`${index > 0 && " · "}${part}`)}
    </button>
    ${isOpen && html`<${Figures} finish=${finish} answerCold=${answerCold} busy=${busy} />`}`;
}

function partsOf(hob) {
  const { remembered, total } = rememberedOf(hob);
  return [
    hob.cold && html`<strong>${t("numbers.cold")}</strong>`,
    html`<strong>${t("numbers.start", { time: hob.ttft_ms })}</strong>`,
    hob.tokens_per_second && t("numbers.speed", { speed: rounded(hob.tokens_per_second) }),
    remembered
      ? t("numbers.remembered", { remembered, n: total })
      : t("numbers.read", { n: total }),
    hob.saved_ms >= MIN_SAVED_MS && t("numbers.saved", { time: hob.saved_ms }),
  ].filter(Boolean);
}

/** Fast ones without a fraction. */
const rounded = (speed) => (speed < 10 ? Math.round(speed * 10) / 10 : Math.round(speed));

function Figures({ finish, answerCold, busy }) {
  const { hob, usage, model } = finish;
  const [isAsked, setAsked] = useState(false);
  const rows = [
    ["numbers.ttft", t("numbers.time", { time: hob.ttft_ms })],
    hob.total_ms && ["numbers.total", t("numbers.time", { time: hob.total_ms })],
    usage && ["numbers.answer", t("numbers.tokens", { n: usage.completion_tokens })],
    ["numbers.prompt", originTexts(hob).join(", ")],
    hob.saved_ms > 0 && ["numbers.saved.title", t("numbers.saved.about", { time: hob.saved_ms })],
    model && ["numbers.model", model],
  ];
  return html`
    <div class="figures" data-test="figures">
      <dl>
        ${rows.filter(Boolean).map(([name, text]) => html`<dt>${t(name)}</dt><dd>${text}</dd>`)}
      </dl>
      <div class="row">
        ${answerCold && html`
          <${Button} disabled=${busy} onClick=${answerCold} title=${t("message.cold.long")} data-test="answer-cold">
            ${t("message.cold")}
          <//>`}
        ${hob.explanation && html`
          <${Button} onClick=${() => setAsked(true)} data-test="why">${t("numbers.why")}<//>`}
      </div>
      ${isAsked && html`
        <${Dialog} title=${t("miss.title")} wide toRead onClose=${() => setAsked(false)}>
          <${Miss} explanation=${hob.explanation} />
        <//>`}
    </div>`;
}

/** Where the prompt's tokens were. */
function originTexts(hob) {
  const { computed, ...reused } = originsOf(hob);
  const texts = Object.entries(reused).filter(([, n]) => n > 0);
  return [
    ...texts.map(([origin, n]) => t(`numbers.${origin}`, { n })),
    t("numbers.computed", { n: computed }),
  ];
}
