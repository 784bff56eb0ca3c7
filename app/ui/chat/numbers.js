// The line of figures under an answer: how soon it came, and what was not computed for it.

import { html, t, useState } from "/lib.js";
import { Dialog } from "/parts.js";
import { Miss } from "./miss.js";

export function Numbers({ hob }) {
  const [asksWhy, setAsksWhy] = useState(false);
  const { shared, memory, disk, computed } = hob.tokens;
  // What came while somebody was about to ask is told by where it came from.
  const ahead = hob.ahead ?? { memory: 0, disk: 0, computed: 0 };
  const part = (name, n) => n > 0 && t(`numbers.${name}`, { n });
  const parts = [
    part("shared", shared - ahead.memory - ahead.disk - ahead.computed),
    part("memory", memory + ahead.memory),
    part("disk", disk + ahead.disk),
    part("ahead", ahead.computed),
    t("numbers.computed", { n: computed }),
  ];
  return html`<span class="numbers" data-test="numbers">
    ${hob.cold && html`<strong>${t("numbers.cold")}</strong> · `}<strong>${t("numbers.ttft", { time: hob.ttft_ms })}</strong>
    ${parts.filter(Boolean).map((part) => html` · ${part}`)}
    ${hob.saved_ms > 0 && html` · <span title=${t("numbers.saved.long")}>${t("numbers.saved", { time: hob.saved_ms })}</span>`}
    ${hob.explanation && html` · <button type="button" class="link-button" onClick=${() => setAsksWhy(true)} data-test="why">${t("numbers.why")}</button>`}
    ${asksWhy && html`<${Dialog} title=${t("miss.title")} wide toRead onClose=${() => setAsksWhy(false)}><${Miss} explanation=${hob.explanation} /><//>`}
  </span>`;
}
