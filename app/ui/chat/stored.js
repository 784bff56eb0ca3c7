// The stored messages of a branch. They do not render again while an answer streams in.

import { html, pure, t, useMemo } from "/lib.js";
import { Hit } from "./hit.js";
import { Message } from "./message.js";
import { awayOf, countInstructions, newestStart, variantsById } from "./tree.js";

/** A full batch that is out of sight has no layout; `chat.css` has its height. */
const BATCH = 20;

export const Stored = pure(({ messages, path: whole, instructions, conversation, busy, hit }) => {
  // The chat's own instructions replace those that it began with.
  const front = instructions === null ? 0 : countInstructions(whole);
  const path = useMemo(() => whole.slice(front), [whole, front]);
  const variants = useMemo(() => variantsById(messages, path), [messages, path]);
  const away = useMemo(() => awayOf(whole), [whole]);
  const last = busy ? null : path.at(-1);
  const start = useMemo(() => newestStart(path), [path]);
  return inBatches(path).map((batch, index) => html`
    <div key=${index} class=${batch.length === BATCH && "message-batch"}>
      ${batch.map((message) => html`
        ${message === start && html`<${Cut} summary=${message.summary} />`}
        ${message.id === hit && html`<${Hit} key=${`hit-${hit}`} />`}
        <${Message}
          key=${message.id}
          message=${message}
          conversation=${conversation}
          busy=${busy}
          isLast=${message === last}
          away=${away.get(message.id)}
          ...${variants.get(message.id)}
        />`)}
    </div>`);
});

/** Between the messages that the model reads and the older ones, which do not fit. */
const Cut = ({ summary }) => html`
  <p class="cut" data-test="cut">${t(summary ? "room.cut" : "newest.cut")}</p>
  ${summary && html`
    <details class="fold" data-test="summary">
      <summary>${t("room.summary")}</summary>
      <div dir="auto">${summary}</div>
    </details>`}`;

function inBatches(path) {
  const batches = [];
  for (let at = 0; at < path.length; at += BATCH) batches.push(path.slice(at, at + BATCH));
  return batches;
}
