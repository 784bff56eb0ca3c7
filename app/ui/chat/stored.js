// The messages of a branch. Stored ones do not render again while an answer streams in.

import { classes, html, pure, t, useMemo, useRef, useStore } from "/lib.js";
import { BATCH, inBatches, useFirstDrawn } from "./batches.js";
import { comingOf } from "./coming.js";
import { finding } from "./finding.js";
import { Hit } from "./hit.js";
import { Message } from "./message.js";
import { awayOf, countInstructions, newestStart, variantsById } from "./tree.js";

/** `pending` and `live` come behind the `path` of `messages`; `keys` has those of stored ones that came so. */
export const Stored = pure(({ messages, path: whole, instructions, conversation, pending, live, keys, hit }) => {
  // The chat's own instructions replace those that it began with.
  const front = instructions === null ? 0 : countInstructions(whole);
  const path = useMemo(() => whole.slice(front), [whole, front]);
  const known = useRef();
  const variants = useMemo(() => variantsById(messages, path, known.current), [messages, path]);
  known.current = variants;
  const away = useMemo(() => awayOf(whole), [whole]);
  const last = live ? null : path.at(-1);
  const start = useMemo(() => newestStart(path), [path]);
  const coming = useMemo(() => comingOf(pending, live), [pending, live]);
  const batches = useMemo(() => inBatches([...path, ...coming.keys()]), [path, coming]);
  // The search looks for words in what is drawn.
  const isFinding = useStore(finding, ({ open }) => open);
  const firstDrawn = useFirstDrawn(batches.length, isFinding ? 0 : batchAbove(path, hit));
  // Out of sight, one with a growing answer would keep its height.
  const isFull = (batch, index) => batch.length === BATCH && !(live && index === batches.length - 1);
  return batches.map((batch, index) => html`
    <div
      key=${index}
      class=${classes(isFull(batch, index) && "message-batch", index < firstDrawn && "coming")}
    >
      ${index >= firstDrawn && batch.map((message) => html`
        ${message === start && html`<${Cut} summary=${message.summary} />`}
        ${message.id === hit && html`<${Hit} key=${`hit-${hit}`} />`}
        <${Message}
          key=${keys[message.id] ?? message.id}
          message=${message}
          conversation=${conversation}
          isLast=${message === last}
          away=${away.get(message.id)}
          ...${variants.get(message.id)}
          ...${coming.get(message)}
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
