// All figures of an answer: where its prompt came from, what its chat has in cells, and why tokens were computed.
// Loaded when they are opened.

import { html, t, useState } from "/lib.js";
import { Button, Dialog } from "/parts.js";
import { useBusy } from "./busy.js";
import { originsOf } from "./figures.js";
import { Miss } from "./miss.js";

export function Figures({ finish, answerCold, conversation }) {
  const busy = useBusy(conversation);
  const { hob, usage, model } = finish;
  const { tokens, cells } = hob;
  const [isAsked, setAsked] = useState(false);
  const rows = [
    ["numbers.ttft", t("numbers.time", { time: hob.ttft_ms })],
    hob.total_ms && ["numbers.total", t("numbers.time", { time: hob.total_ms })],
    usage && ["numbers.answer", t("numbers.tokens", { n: usage.completion_tokens })],
    hob.drafts?.drafted > 0 && ["numbers.drafts", draftText(hob.drafts.drafted, hob.drafts.accepted)],
    hob.drafts?.model_drafted > 0 &&
      ["numbers.drafts.model", draftText(hob.drafts.model_drafted, hob.drafts.model_accepted)],
    hob.drafts?.mtp_drafted > 0 &&
      ["numbers.drafts.mtp", draftText(hob.drafts.mtp_drafted, hob.drafts.mtp_accepted)],
    // An engine at another address says nothing of its KV.
    tokens && ["numbers.prompt", originTexts(hob).join(", ")],
    tokens?.repaired > 0 && ["numbers.repaired", t("numbers.tokens", { n: tokens.repaired })],
    tokens?.lossy > 0 && ["numbers.rounded", t("numbers.tokens", { n: tokens.lossy })],
    hob.immovable && ["numbers.immovable", hob.immovable],
    isLongerThanCells(hob) && ["numbers.cells", t("numbers.cells.of", cells)],
    cells?.no_eviction && ["numbers.stays", cells.no_eviction.what],
    hob.saved_ms > 0 && ["numbers.saved.title", t("numbers.saved.about", { time: hob.saved_ms })],
    model && ["numbers.model", model],
  ];
  return html`
    <div class="figures" data-test="figures">
      <dl>
        ${rows.filter(Boolean).map(([name, text]) => html`<dt>${t(name)}</dt><dd>${text}</dd>`)}
      </dl>
      <div class="row">
        ${answerCold && tokens && html`
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

const draftText = (drafted, accepted) => t("numbers.accepted", { n: drafted, accepted });

/** Answers of earlier versions do not say what left. */
const isLongerThanCells = ({ tokens, cells, moved = [] }) => cells && (tokens.away > 0 || moved.length > 0);

/** Where the prompt's tokens were. */
function originTexts(hob) {
  const { computed, ...reused } = originsOf(hob);
  const texts = Object.entries(reused).filter(([, n]) => n > 0);
  return [
    ...texts.map(([origin, n]) => t(`numbers.${origin}`, { n })),
    t("numbers.computed", { n: computed }),
  ];
}
