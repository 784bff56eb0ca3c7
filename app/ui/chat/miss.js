// Why something was computed again: what was kept and what came, side by side, with the difference
// marked; the reason, and what to do.

import { html, spoken, t } from "/lib.js";

/** As many equal characters end a difference. */
const EQUAL = 8;

/** `explanation`: as an answer has it, or `GET /v1/conversations/{id}/explain`. */
export function Miss({ explanation }) {
  const { reason, what, at, segment, before, kept_text: kept, new_text: now } = explanation;
  const [keptEnd, nowEnd] = kept === null ? [0, 0] : difference(kept, now);
  const place = segment && t("miss.place", { key: segment.key, token: at });
  return html`<div class="miss stack" data-test="miss">
    <p><strong>${t(`miss.${reason}`)}</strong>${place && html` <span class="note">${place}</span>`}</p>
    ${spoken.get().language === "en" && html`<p class="note">${what}</p>`}
    ${kept !== null && html`<div class="miss-texts">
      <${Side} title=${t("miss.kept")} before=${before} text=${kept} end=${keptEnd} />
      <${Side} title=${t("miss.now")} before=${before} text=${now} end=${nowEnd} />
    </div>`}
    <p>${t("miss.remedy")} ${t(`miss.${reason}.do`)}</p>
  </div>`;
}

function Side({ title, before, text, end }) {
  return html`<figure><figcaption class="label">${title}</figcaption>
    <pre><span class="miss-before">${before}</span><mark>${text.slice(0, end)}${end === 0 && html`<span class="hidden-text">${t("miss.nothing")}</span>`}</mark>${text.slice(end)}</pre></figure>`;
}

/** How far two texts, which begin to differ at once, differ: where they go on alike. */
function difference(one, other) {
  for (let sum = 0; sum < one.length + other.length; sum += 1) {
    for (let i = Math.max(0, sum - other.length); i <= Math.min(sum, one.length); i += 1) {
      const rest = Math.min(one.length - i, other.length - (sum - i));
      if (rest >= EQUAL && one.substr(i, rest) === other.substr(sum - i, rest)) return [i, sum - i];
    }
  }
  return [one.length, other.length];
}
