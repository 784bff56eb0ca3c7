// Explains why tokens were computed instead of reused: the saved and the new text side by side.

import { html, locale, t } from "/lib.js";
import { difference } from "./difference.js";

/** `explanation`: from an answer, or from `GET /v1/conversations/{id}/explain`. */
export function Miss({ explanation }) {
  const { reason, what, at, segment } = explanation;
  return html`
    <div class="miss stack" data-test="miss">
      <p>
        <strong>${t(`miss.${reason}`)}</strong>
        ${segment && html`
          ${" "}<span class="note">${t("miss.place", { key: segment.key, token: at })}</span>`}
      </p>
      ${locale.get().language === "en" && html`<p class="note">${what}</p>`}
      ${explanation.kept_text !== null && html`<${Texts} ...${explanation} />`}
      <p>${t("miss.remedy")} ${t(`miss.${reason}.do`)}</p>
    </div>`;
}

function Texts({ before, kept_text: saved, new_text: now }) {
  const [savedEnd, nowEnd] = difference(saved, now);
  return html`
    <div class="miss-texts">
      <${Side} title=${t("miss.saved")} before=${before} text=${saved} end=${savedEnd} />
      <${Side} title=${t("miss.now")} before=${before} text=${now} end=${nowEnd} />
    </div>`;
}

/** The first `end` characters of `text` differ. */
function Side({ title, before, text, end }) {
  const nothing = html`<span class="hidden-text">${t("miss.nothing")}</span>`;
  return html`
    <figure>
      <figcaption class="label">${title}</figcaption>
      <pre>
        <span class="miss-before">${before}</span>
        <mark>${end === 0 ? nothing : text.slice(0, end)}</mark>
        ${text.slice(end)}
      </pre>
    </figure>`;
}
