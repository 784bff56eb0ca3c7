// One message, and what can be done with it.

import { classes, html, pure, t, useLayoutEffect, useRef, useState } from "/lib.js";
import { Button, copy, IconButton } from "/parts.js";
import { Markdown } from "./markdown.js";
import { Numbers } from "./numbers.js";
import { textOf } from "./tree.js";

/** A stored message. `siblings`: its variants, itself among them; `reused`: what the branch shares. */
export const Message = pure(({ message, siblings, reused, talk, isLast, busy }) => {
  const [editing, setEditing] = useState(false);
  const text = textOf(message);
  const isUser = message.role === "user";
  const variants = siblings.length > 1 && html`<${Siblings} message=${message} siblings=${siblings} reused=${reused} talk=${talk} busy=${busy} />`;
  if (!isUser && message.role !== "assistant") {
    const fold = message.role === "tool"
      ? html`<${Fold} title=${t("message.result")}><pre tabindex="0">${text}</pre><//>`
      : html`<${Fold} title=${t("message.system")}><div>${text}</div><//>`;
    return html`${fold}${variants && html`<div class="row under">${variants}</div>`}`;
  }
  if (isUser && editing) {
    const save = (text) => {
      setEditing(false);
      talk.edit(message, text);
    };
    return html`<article class="message user"><${Edit} text=${text} onSave=${save} onCancel=${() => setEditing(false)} /></article>`;
  }
  const again = (cold) => talk.again(message, cold);
  return html`<article class=${classes("message", isUser ? "user" : "assistant", isLast && "last")} data-test=${isUser ? "user" : "answer"}>
    <div class="hidden-text">${t(isUser ? "message.you" : "message.hob")}</div>
    ${isUser ? html`<div class="bubble">${text}</div>` : html`<${Said} text=${text} reasoning=${message.reasoning_content} calls=${message.tool_calls} isOver />`}
    <div class="row under">
      ${variants}
      ${message.status === "interrupted" && html`<span data-test="interrupted">${t("message.interrupted")}</span>`}
      ${message.finish?.finish_reason === "length" && html`<span>${t("message.length")}</span>`}
      ${!isUser && message.finish?.hob && html`<${Numbers} hob=${message.finish.hob} />`}
      <span class="tools">
        <${IconButton} small icon="copy" label=${t("message.copy")} onClick=${() => copy(text)} />
        ${isUser && html`<${IconButton} small icon="edit" label=${t("message.edit")} disabled=${busy} onClick=${() => setEditing(true)} />`}
        ${!isUser && message.parent && html`
          <${IconButton} small icon="again" label=${t("message.again")} disabled=${busy} onClick=${() => again(false)} />
          <${IconButton} small icon="cold" label=${t("message.cold")} disabled=${busy} onClick=${() => again(true)} />`}
      </span>
    </div>
  </article>`;
});

export const Live = pure(({ live }) => html`
  <article class="message assistant live" data-test="live">
    <div class="hidden-text">${t("message.hob")}</div>
    <${Said} text=${live.text} reasoning=${live.reasoning} calls=${live.calls} />
    <span class="cursor" aria-hidden="true"></span>
  </article>`);

/** A message that was sent and is not read back yet. */
export const Sent = ({ message }) => html`
  <article class="message user" data-test="user"><div class="bubble">${textOf(message)}</div><div class="row under"></div></article>`;

function Said({ text, reasoning, calls, isOver }) {
  return html`
    ${reasoning && html`<${Fold} title=${t("message.reasoning")} test="reasoning"><div>${reasoning}</div><//>`}
    <${Markdown} text=${text} isOver=${isOver} />
    ${(calls ?? []).map((call) => html`<${Fold} title=${t("message.call", call.function)} test="tool-call"><pre tabindex="0">${call.function.arguments}</pre><//>`)}`;
}

const Fold = ({ title, test, children }) => html`<details class="fold" data-test=${test}><summary>${title}</summary>${children}</details>`;

function Siblings({ message, siblings, reused, talk, busy }) {
  const at = siblings.findIndex(({ id }) => id === message.id);
  const go = (step) => talk.choose(siblings[at + step]);
  return html`<span class="siblings figure" data-test="siblings">
    <${IconButton} small icon="left" label=${t("branch.before")} disabled=${at === 0 || busy} onClick=${() => go(-1)} />
    ${at + 1}/${siblings.length}
    <${IconButton} small icon="right" label=${t("branch.after")} disabled=${at === siblings.length - 1 || busy} onClick=${() => go(1)} />
    ${reused > 0 && html`<span title=${t("branch.shares.long")}>${t("branch.shares", { tokens: reused })}</span>`}
  </span>`;
}

function Edit({ text, onSave, onCancel }) {
  const field = useRef();
  useLayoutEffect(() => { // Before the next key.
    field.current.focus();
    field.current.setSelectionRange(text.length, text.length);
  }, []);
  const save = (event) => {
    event.preventDefault();
    const said = field.current.value.trim();
    if (said) onSave(said);
  };
  const keys = (event) => {
    if (event.key === "Escape") onCancel();
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) save(event);
    else return;
    event.stopPropagation();
  };
  return html`<form class="stack edit" onSubmit=${save}>
    <textarea class="input" rows="3" ref=${field} aria-label=${t("message.edit")} defaultValue=${text} onKeyDown=${keys}></textarea>
    <div class="row"><button class="button primary">${t("message.resend")}</button>
    <${Button} onClick=${onCancel}>${t("cancel")}<//></div>
  </form>`;
}
