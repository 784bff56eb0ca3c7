// The line of figures under an answer: time to first token, and how much was reused.

import { html, t, useState } from "/lib.js";
import { Dialog } from "/parts.js";
import { Miss } from "./miss.js";

export function Numbers({ hob }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <span class="numbers" data-test="numbers">
      ${hob.cold && html`<strong>${t("numbers.cold")}</strong>${" · "}`}
      <strong>${t("numbers.ttft", { time: hob.ttft_ms })}</strong>
      ${tokenCounts(hob).map((text) => html`${" · "}${text}`)}
      ${hob.saved_ms > 0 && html`
        ${" · "}
        <span title=${t("numbers.saved.long")}>${t("numbers.saved", { time: hob.saved_ms })}</span>`}
      ${hob.explanation && html`
        ${" · "}
        <button type="button" class="link-button" onClick=${() => setOpen(true)} data-test="why">
          ${t("numbers.why")}
        </button>`}
      ${isOpen && html`
        <${Dialog} title=${t("miss.title")} wide toRead onClose=${() => setOpen(false)}>
          <${Miss} explanation=${hob.explanation} />
        <//>`}
    </span>`;
}

/** `ahead`, what was restored or computed before the request, counts where it came from. */
function tokenCounts(hob) {
  const { tokens } = hob;
  const ahead = hob.ahead ?? { memory: 0, disk: 0, computed: 0 };
  const aheadTotal = ahead.memory + ahead.disk + ahead.computed;
  const reused = [
    ["numbers.shared", tokens.shared - aheadTotal],
    ["numbers.memory", tokens.memory + ahead.memory],
    ["numbers.disk", tokens.disk + ahead.disk],
    ["numbers.ahead", ahead.computed],
  ];
  return [
    ...reused.filter(([, n]) => n > 0).map(([name, n]) => t(name, { n })),
    t("numbers.computed", { n: tokens.computed }),
  ];
}
