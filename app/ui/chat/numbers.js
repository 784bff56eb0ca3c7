// The line under an answer: when it began, how fast it came, how much of its prompt was remembered, what
// was brought back for it. A click shows the rest.

import { html, importModule, lazy, t, useState, withTexts } from "/lib.js";
import { broughtBack, rememberedOf } from "./figures.js";

const all = lazy(() => withTexts(importModule("/chat/all-figures.js")));

/** Less is not worth a word. */
const MIN_SAVED_MS = 1000;

/** `finish`: how the answer of `conversation` ended. `answerCold`: null where it cannot be answered again. */
export function Numbers({ finish, answerCold, conversation }) {
  const [isOpen, setOpen] = useState(false);
  const module = all.use(isOpen);
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
    ${isOpen && module && html`
      <${module.Figures} finish=${finish} answerCold=${answerCold} conversation=${conversation} />`}`;
}

function partsOf(hob) {
  // An engine at another address says nothing of its KV.
  const { remembered, total } = hob.tokens ? rememberedOf(hob) : {};
  const back = broughtBack(hob);
  return [
    hob.cold && html`<strong>${t("numbers.cold")}</strong>`,
    html`<strong>${t("numbers.start", { time: hob.ttft_ms })}</strong>`,
    hob.tokens_per_second && t("numbers.speed", { speed: rounded(hob.tokens_per_second) }),
    total && (remembered
      ? t("numbers.remembered", { remembered, n: total })
      : t("numbers.read", { n: total })),
    hob.saved_ms >= MIN_SAVED_MS && t("numbers.saved", { time: hob.saved_ms }),
    back.parts > 0 && html`
      <span title=${t("numbers.back.long")} data-test="brought-back">
        ${t("numbers.back", { n: back.parts, tokens: back.tokens })}
      </span>`,
    hob.reanchored && html`
      <span title=${t("numbers.reanchored.long", hob.reanchored)} data-test="reanchored">
        ${t("numbers.reanchored")}
      </span>`,
    hob.recalled > 0 && html`
      <span title=${t("numbers.recalled.long")} data-test="recalled">
        ${t("numbers.recalled", { n: hob.recalled })}
      </span>`,
  ].filter(Boolean);
}

/** Fast ones without a fraction. */
const rounded = (speed) => (speed < 10 ? Math.round(speed * 10) / 10 : Math.round(speed));
