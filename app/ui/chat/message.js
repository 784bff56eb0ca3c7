// One message and its actions.

import { classes, html, pure, t, useLayoutEffect, useRef, useState } from "/lib.js";
import { Button, copy, IconButton } from "/parts.js";
import { Numbers } from "./numbers.js";
import { SentDocument } from "../documents/chip.js";
import { Reading } from "./reading.js";
import { AnswerText, UserText } from "./text.js";
import { textOf } from "./tree.js";

/** `siblings`: the variants of the message; `reused`: the tokens that its branch shares with them. */
export const Message = pure((props) => {
  const { role } = props.message;
  if (role === "user") return html`<${UserMessage} ...${props} />`;
  if (role === "assistant") return html`<${Answer} ...${props} />`;
  return html`<${OtherMessage} ...${props} />`;
});

function UserMessage(props) {
  const { message, conversation, isLast, busy } = props;
  const [editing, setEditing] = useState(false);
  const text = textOf(message);
  if (editing) {
    const save = (edited) => {
      setEditing(false);
      conversation.edit(message, edited);
    };
    return html`
      <article class="message user">
        <${Edit} text=${text} onSave=${save} onCancel=${() => setEditing(false)} />
      </article>`;
  }
  return html`
    <article class=${classes("message user", isLast && "last")} data-test="user">
      <div class="hidden-text">${t("message.you")}</div>
      <${SentDocuments} message=${message} />
      ${text && html`<${UserText} text=${text} />`}
      <div class="row under">
        <${Siblings} ...${props} />
        <${EndNotes} message=${message} />
        <span class="tools">
          <${CopyButton} text=${text} />
          <${IconButton}
            small
            icon="edit"
            label=${t("message.edit")}
            disabled=${busy}
            onClick=${() => setEditing(true)}
          />
        </span>
      </div>
    </article>`;
}

function Answer(props) {
  const { message, conversation, isLast, busy } = props;
  const text = textOf(message);
  return html`
    <article class=${classes("message assistant", isLast && "last")} data-test="answer">
      <div class="hidden-text">${t("message.hob")}</div>
      <${AnswerParts}
        text=${text}
        reasoning=${message.reasoning_content}
        calls=${message.tool_calls}
        isOver
      />
      <div class="row under">
        <${Siblings} ...${props} />
        <${EndNotes} message=${message} />
        ${isLast && message.finish?.hob?.context_full && html`
          <button
            type="button"
            class="link-button"
            title=${t("newest.go-on.long")}
            onClick=${() => conversation.againNewest(message)}
            data-test="go-on"
          >
            ${t("newest.go-on")}
          </button>`}
        ${message.finish?.hob && html`
          <${Numbers}
            finish=${message.finish}
            answerCold=${message.parent && (() => conversation.again(message, true))}
            busy=${busy}
          />`}
        <span class="tools">
          <${CopyButton} text=${text} />
          ${message.parent && html`
            <${IconButton}
              small
              icon="again"
              label=${t("message.again")}
              disabled=${busy}
              onClick=${() => conversation.again(message, false)}
            />`}
        </span>
      </div>
    </article>`;
}

function OtherMessage(props) {
  const { message, siblings } = props;
  const text = textOf(message);
  return html`
    ${message.role === "tool"
      ? html`<${Fold} title=${t("message.result")}><pre tabindex="0" dir="auto">${text}</pre><//>`
      : html`<${Fold} title=${t("message.system")}><div dir="auto">${text}</div><//>`}
    ${siblings.length > 1 && html`
      <div class="row under">
        <${Siblings} ...${props} />
      </div>`}`;
}

export const Live = pure(({ live }) => html`
  <article class="message assistant live" data-test="live">
    <div class="hidden-text">${t("message.hob")}</div>
    ${live.hasBegun
      ? html`
        <${AnswerParts} text=${live.text} reasoning=${live.reasoning} calls=${live.calls} />
        <span class="cursor" aria-hidden="true"></span>
        ${live.isStopping && html`<p class="note" data-test="stopping">${t("reading.stopping")}</p>`}`
      : html`<${Reading} progress=${live.progress} isStopping=${live.isStopping} />`}
  </article>`);

/** A message that was sent and is not read back yet. */
export const Sent = ({ message }) => html`
  <article class="message user" data-test="user">
    <${SentDocuments} message=${message} />
    ${textOf(message) && html`<${UserText} text=${textOf(message)} />`}
    <div class="row under"></div>
  </article>`;

function SentDocuments({ message }) {
  const documents = message.hob?.documents ?? [];
  if (!documents.length) return null;
  return html`
    <div class="sent-documents">
      ${documents.map((document) => html`<${SentDocument} key=${document.id} document=${document} />`)}
    </div>`;
}

function AnswerParts({ text, reasoning, calls, isOver }) {
  return html`
    ${reasoning && html`
      <${Fold} title=${t("message.reasoning")} test="reasoning"><div dir="auto">${reasoning}</div><//>`}
    <${AnswerText} text=${text} isOver=${isOver} />
    ${(calls ?? []).map((call) => html`
      <${Fold} title=${t("message.call", call.function)} test="tool-call">
        <pre tabindex="0">${call.function.arguments}</pre>
      <//>`)}`;
}

function Fold({ title, test, children }) {
  return html`
    <details class="fold" data-test=${test}>
      <summary>${title}</summary>
      ${children}
    </details>`;
}

function CopyButton({ text }) {
  return html`
    <${IconButton} small icon="copy" label=${t("message.copy")} onClick=${() => copy(text)} />`;
}

function EndNotes({ message }) {
  const isInterrupted = message.status === "interrupted";
  const isCutOff = message.finish?.finish_reason === "length";
  const isFull = message.finish?.hob?.context_full;
  return html`
    ${isInterrupted && html`<span data-test="interrupted">${t("message.interrupted")}</span>`}
    ${isCutOff && html`<span>${t(isFull ? "newest.full" : "message.length")}</span>`}`;
}

/** Moves between the variants of a message; renders nothing when there is only one. */
function Siblings({ message, siblings, reused, conversation, busy }) {
  if (siblings.length < 2) return null;
  const index = siblings.findIndex(({ id }) => id === message.id);
  const step = (by) => conversation.choose(siblings[index + by]);
  return html`
    <span class="siblings figure" data-test="siblings">
      <${IconButton}
        small
        icon="left"
        label=${t("branch.before")}
        disabled=${index === 0 || busy}
        onClick=${() => step(-1)}
      />
      ${index + 1}/${siblings.length}
      <${IconButton}
        small
        icon="right"
        label=${t("branch.after")}
        disabled=${index === siblings.length - 1 || busy}
        onClick=${() => step(1)}
      />
      ${reused > 0 && html`
        <span title=${t("branch.shares.long")}>${t("branch.shares", { tokens: reused })}</span>`}
    </span>`;
}

function Edit({ text, onSave, onCancel }) {
  const field = useRef();
  // A layout effect: the next key must already go into the field.
  useLayoutEffect(() => {
    field.current.focus();
    field.current.setSelectionRange(text.length, text.length);
  }, []);
  const save = (event) => {
    event.preventDefault();
    const edited = field.current.value.trim();
    if (edited) onSave(edited);
  };
  const handleKey = (event) => {
    if (event.key === "Escape") onCancel();
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) save(event);
    else return;
    event.stopPropagation();
  };
  return html`
    <form class="stack edit" onSubmit=${save}>
      <textarea
        class="input"
        dir="auto"
        rows="3"
        ref=${field}
        aria-label=${t("message.edit")}
        defaultValue=${text}
        onKeyDown=${handleKey}
      ></textarea>
      <div class="row">
        <button class="button primary">${t("message.resend")}</button>
        <${Button} onClick=${onCancel}>${t("cancel")}<//>
      </div>
    </form>`;
}
