// The stored messages of a branch. They do not render again while an answer streams in.

import { classes, html, pure, t, useMemo, useRef, useStore } from "/lib.js";
import { BATCH, inBatches, useFirstDrawn } from "./batches.js";
import { finding } from "./finding.js";
import { Hit } from "./hit.js";
import { Message } from "./message.js";
import { awayOf, countInstructions, newestStart, variantsById } from "./tree.js";

export const Stored = pure(({ messages, path: whole, instructions, conversation, busy, hit }) => {
  // The chat's own instructions replace those that it began with.
  const front = instructions === null ? 0 : countInstructions(whole);
  const path = useMemo(() => whole.slice(front), [whole, front]);
  const known = useRef();
  const variants = useMemo(() => variantsById(messages, path, known.current), [messages, path]);
  known.current = variants;
  const away = useMemo(() => awayOf(whole), [whole]);
  const last = busy ? null : path.at(-1);
  const start = useMemo(() => newestStart(path), [path]);
  const batches = useMemo(() => inBatches(path), [path]);
  // The search looks for words in what is drawn.
  const isFinding = useStore(finding, ({ open }) => open);
  const firstDrawn = useFirstDrawn(batches.length, isFinding ? 0 : batchAbove(path, hit));
  return batches.map((batch, index) => html`
    <div
      key=${index}
      class=${classes(batch.length === BATCH && "message-batch", index < firstDrawn && "coming")}
    >
      ${index >= firstDrawn && batch.map((message) => html`
        ${message === start && html`<${Cut} summary=${message.summary} />`}
        ${message.id === hit && html`<${Hit} key=${`hit-${hit}`} />`}
        <${Message}
          key=${message.id}
          message=${message}
          conversation=${conversation}
          isLast=${message === last}
          away=${away.get(message.id)}
          ...${variants.get(message.id)}
        />`)}
    </div>`);
});

/** The index of the batch above the one with the message of that id; Infinity without one. */
function batchAbove(path, id) {
  const at = id === null ? -1 : path.findIndex((message) => message.id === id);
  return at < 0 ? Infinity : Math.floor(at / BATCH) - 1;
}

/** Between the messages that the model reads and the older ones, which do not fit. */
const Cut = ({ summary }) => html`
  <p class="cut" data-test="cut">${t(summary ? "room.cut" : "newest.cut")}</p>
  ${summary && html`
    <details class="fold" data-test="summary">
      <summary>${t("room.summary")}</summary>
      <div dir="auto">${summary}</div>
    </details>`}`;
