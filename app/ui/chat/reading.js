// In the place of an answer that has not begun: how far its prompt is, as a sentence and as the blocks of
// the prompt.
//
// - A screen reader finds a progress bar. It is announced once, by the page; its steps are silent.

import { classes, html, t, useEffect, useState } from "/lib.js";
import { readingInWords } from "../documents/words.js";
import { cellsOf } from "./figures.js";

const MAX_CELLS = 60;
/** A turn that waits for less says nothing of it. */
const WAITING_AFTER_MS = 600;

/** `progress`: null until the daemon's first report. */
export function Reading({ progress, isStopping }) {
  const isLate = useIsLate(progress?.phase === "waiting");
  const text = isStopping ? t("reading.stopping") : sentence(progress, isLate);
  return html`
    <div class="reading" data-test="reading" data-phase=${progress?.phase ?? "sent"}>
      <p class="figure">${text}</p>
      ${progress && html`<${Blocks} progress=${progress} text=${text} />`}
    </div>`;
}

function sentence(progress, isLate) {
  if (!progress) return t("reading.sent");
  const { phase, tokens_ready: ready, tokens_total: total } = progress;
  if (phase === "loading") return t("reading.loading", { percent: progress.loaded_percent });
  if (phase === "waiting" && isLate) return t("reading.waiting");
  if (phase === "restoring") return t("reading.restoring", { ready, total });
  return readingInWords(progress);
}

function Blocks({ progress, text }) {
  const { tokens_total: total, tokens_ready: ready, loaded_percent: percent } = progress;
  const isLoading = progress.phase === "loading";
  return html`
    <div
      class="prompt-cells"
      role="progressbar"
      aria-label=${t("reading.label")}
      aria-valuemin="0"
      aria-valuemax=${isLoading ? 100 : total}
      aria-valuenow=${isLoading ? percent : ready}
      aria-valuetext=${text}
    >
      ${cellsOf(progress, MAX_CELLS).map((kind, index) => html`
        <i key=${index} class=${classes("prompt-cell", kind)}></i>`)}
    </div>`;
}

function useIsLate(isWaiting) {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    setLate(false);
    if (!isWaiting) return undefined;
    const timer = setTimeout(() => setLate(true), WAITING_AFTER_MS);
    return () => clearTimeout(timer);
  }, [isWaiting]);
  return isLate;
}
