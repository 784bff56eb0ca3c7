// One message and its actions.

import { classes, createStore, html, pure, t, useState, useStore } from "/lib.js";
import { copy, Icon, IconButton, Menu, useInPlace } from "/parts.js";
import { useBusy } from "./busy.js";
import { changes, changeText } from "./changes.js";
import { Edit } from "./edit.js";
import { Numbers } from "./numbers.js";
import { SentDocument } from "../documents/chip.js";
import { Reading } from "./reading.js";
import { SaidBy } from "./said-by.js";
import { AnswerText, UserText } from "./text.js";
import { ToolResults } from "./tool-results.js";
import { isPinned, textOf } from "./tree.js";

/** Reasons for which nothing leaves the cells; the others are the model's. */
const WHY_FULL = ["memory", "off", "protected"];

/** Fewer are those of the template and of a few words. */
const MIN_SHARED_TOKENS = 32;

/** `siblings`: the variants of the message; `reused`: the tokens that its branch shares with them; `away`: its tokens
    that the model does not see now. `isPending`: it was sent and is not read back yet; `live`: of an answer that
    streams in. Such a one becomes a stored one in its place. */
export const Message = pure((props) => {
  const { role } = props.message;
  if (role === "user") return html`<${UserMessage} ...${props} />`;
  if (role === "assistant") return html`<${Answer} ...${props} />`;
  return html`<${OtherMessage} ...${props} />`;
});

/** A hook: the edit of a message, with the text that its field begins with or null. One that was left is there again,
    and `isBack`. */
function useEdit({ edits }, { id }) {
  const [edit, setEdit] = useState(() => {
    const text = (id && edits.read(id)) || null;
    return { text, isBack: text !== null };
  });
  return {
    ...edit,
    isOpen: edit.text !== null,
    open: (text) => setEdit({ text, isBack: false }),
    close: () => setEdit({ text: null, isBack: false }),
    write: (text) => edits.write(id, text),
    forget: () => edits.write(id, ""),
  };
}

function UserMessage(props) {
  const { message, conversation, isLast, isPending } = props;
  const edit = useEdit(conversation, message);
  const frame = useInPlace(edit.isOpen, ".edit-message");
  const text = textOf(message);
  if (edit.isOpen) {
    const close = () => {
      edit.forget();
      edit.close();
    };
    const save = (edited) => {
      close();
      conversation.edit(message, edited);
    };
    return html`
      <article class="message user" ref=${frame}>
        <${Edit}
          text=${edit.text}
          name=${t("message.edit")}
          save=${t("message.resend")}
          isBack=${edit.isBack}
          onWrite=${edit.write}
          onSave=${save}
          onCancel=${close}
        />
      </article>`;
  }
  return html`
    <article class=${classes("message user", isLast && "last")} ref=${frame} data-test="user">
      <h2 class="hidden-text">${t("message.you")}</h2>
      <${SentDocuments} message=${message} />
      <div class="said">
        ${!isPending && html`
          <${Tools} ...${props} text=${text} editLabel=${t("message.edit")} edit=${() => edit.open(text)} />`}
        <${Pinned} message=${message} />
        <${Away} tokens=${props.away} />
        ${text && html`<${UserText} text=${text} />`}
      </div>
      ${(props.siblings.length > 1 || isLast) && html`
        <div class="row under">
          <${Siblings} ...${props} />
          ${isLast && html`<${Unanswered} ...${props} />`}
        </div>`}
    </article>`;
}

function Pinned({ message }) {
  if (!isPinned(message)) return null;
  const words = t("message.pinned");
  return html`
    <span class="pin-mark" role="img" aria-label=${words} title=${words} data-test="pinned">
      <${Icon} name="pin" small />
    </span>`;
}

/** Drawn as the block map draws what is away. */
function Away({ tokens }) {
  if (!tokens) return null;
  const words = t("message.away", { n: tokens });
  return html`<span class="away-mark" role="img" aria-label=${words} title=${words} data-test="away"></span>`;
}

/** The message has no answer: it was deleted, or it never began. */
function Unanswered({ message, conversation }) {
  return html`
    <button
      type="button"
      class="link-button"
      disabled=${useBusy(conversation)}
      onClick=${() => conversation.answer(message)}
      data-test="answer-it"
    >
      ${t("message.answer")}
    </button>`;
}

function Answer(props) {
  const { message, conversation, isLast, live } = props;
  const edit = useEdit(conversation, message);
  const frame = useInPlace(edit.isOpen, ".edit-message");
  const text = textOf(message);
  if (edit.isOpen) {
    const save = async (edited) => {
      edit.close();
      // One that could not be saved goes back to its field.
      if (edited === text || (await changeText(conversation, message, edited))) edit.forget();
      else edit.open(edited);
    };
    const cancel = () => {
      edit.forget();
      edit.close();
    };
    return html`
      <article class="message assistant" ref=${frame}>
        <${Edit}
          text=${edit.text}
          name=${t("message.edit-answer")}
          save=${t("save")}
          isBack=${edit.isBack}
          onWrite=${edit.write}
          onSave=${save}
          onCancel=${cancel}
        />
        <p class="note">${t("message.edit-answer.long")}</p>
      </article>`;
  }
  return html`
    <article
      class=${classes("message assistant", live && "live", isLast && "last")}
      ref=${frame}
      data-test=${live ? "live" : "answer"}
    >
      <h2 class="hidden-text">${t("message.hob")}</h2>
      <${AnswerBody} message=${message} live=${live} />
      ${!live && html`<${AnswerEnd} ...${props} text=${text} edit=${() => edit.open(text)} />`}
    </article>`;
}

const NO_ANSWER = createStore(null);

/** The answer so far, and then what is stored of it. */
function AnswerBody({ message, live }) {
  const soFar = useStore(live?.answer ?? NO_ANSWER);
  const { hasBegun, text, reasoning, calls, progress } = live ? soFar : {
    hasBegun: true,
    text: textOf(message),
    reasoning: message.reasoning_content,
    calls: message.tool_calls ?? [],
  };
  return html`
    ${(hasBegun || text || reasoning) && html`
      <${AnswerParts} text=${text} reasoning=${reasoning} calls=${calls} isOver=${!live} />`}
    ${live && (hasBegun
      ? html`
        <span class="cursor" aria-hidden="true"></span>
        ${live.isStopping && html`<p class="note" data-test="stopping">${t("reading.stopping")}</p>`}`
      : html`<${Reading} progress=${progress} isStopping=${live.isStopping} />`)}`;
}

/** What stands below the text of an answer that is over. */
function AnswerEnd(props) {
  const { message, conversation, isLast, text, edit } = props;
  const hasCalls = message.tool_calls?.length > 0;
  return html`
    ${isLast && hasCalls && html`<${ToolResults} message=${message} conversation=${conversation} />`}
    <div class="row under">
      <${Pinned} message=${message} />
      <${Away} tokens=${props.away} />
      <${Siblings} ...${props} />
      <${EndNotes} message=${message} />
      <${SaidBy} model=${message.finish?.model} />
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
      ${isLast && canGoOn(message) && html`<${GoOn} ...${props} />`}
      ${message.finish?.hob && html`
        <${Numbers}
          finish=${message.finish}
          answerCold=${message.parent && (() => conversation.again(message, true))}
          conversation=${conversation}
        />`}
      <${Tools}
        message=${message}
        conversation=${conversation}
        text=${text}
        editLabel=${t("message.edit-answer")}
        edit=${edit}
        again=${message.parent && (() => conversation.again(message, false))}
      />
    </div>`;
}

/** An answer that was cut short, or one whose text the user has written. */
function canGoOn({ parent, status, finish, content }) {
  if (!parent || finish?.hob?.context_full) return false;
  return status === "interrupted" || finish?.finish_reason === "length" || (!finish && Boolean(content));
}

function GoOn({ message, conversation }) {
  return html`
    <button
      type="button"
      class="link-button"
      title=${t("message.continue.long")}
      disabled=${useBusy(conversation)}
      onClick=${() => conversation.goOnWith(message)}
      data-test="continue"
    >
      ${t("message.continue")}
    </button>`;
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

/** The buttons of a message. `again`: asks for another answer; null where none can be. */
function Tools({ message, conversation, text, editLabel, edit, again }) {
  const busy = useBusy(conversation);
  return html`
    <span class="tools">
      <${CopyButton} text=${text} />
      <${IconButton} small class="edit-message" icon="edit" label=${editLabel} disabled=${busy} onClick=${edit} />
      ${again && html`
        <${IconButton} small icon="again" label=${t("message.again")} disabled=${busy} onClick=${again} />`}
      <${Menu}
        small
        label=${t("message.more")}
        items=${() => changes(conversation, message)}
        disabled=${busy}
        test="message-menu"
      />
    </span>`;
}

function SentDocuments({ message }) {
  const documents = message.hob?.documents ?? [];
  if (!documents.length) return null;
  return html`
    <div class="sent-documents">
      ${documents.map((document) => html`<${SentDocument} key=${document.id} document=${document} />`)}
    </div>`;
}

/** What the model reasons is folded, unless there is nothing else to read. */
function AnswerParts({ text, reasoning, calls, isOver }) {
  return html`
    ${reasoning && html`
      <${Fold} title=${t("message.reasoning")} isOpen=${!text && !calls.length} test="reasoning">
        <div dir="auto">${reasoning}</div>
      <//>`}
    <${AnswerText} text=${text} isOver=${isOver} />
    ${calls.map((call) => html`
      <${Fold} title=${t("message.call", call.function)} test="tool-call">
        <pre tabindex="0">${call.function.arguments}</pre>
      <//>`)}`;
}

/** `isOpen` opens and closes it when it changes; in between, the user does. */
function Fold({ title, isOpen, test, children }) {
  return html`
    <details class="fold" open=${isOpen} data-test=${test}>
      <summary>${title}</summary>
      ${children}
    </details>`;
}

function CopyButton({ text }) {
  return html`
    <${IconButton}
      small
      class="copy-message"
      icon="copy"
      label=${t("message.copy")}
      onClick=${() => copy(text)}
    />`;
}

function EndNotes({ message }) {
  const isInterrupted = message.status === "interrupted";
  const isCutOff = message.finish?.finish_reason === "length";
  const isFull = message.finish?.hob?.context_full;
  const stays = message.finish?.hob?.cells?.no_eviction?.reason;
  const whyFull = stays && t(`newest.full.${WHY_FULL.includes(stays) ? stays : "model"}`);
  return html`
    ${isInterrupted && html`<span data-test="interrupted">${t("message.interrupted")}</span>`}
    ${isCutOff && html`
      <span title=${isFull && whyFull}>${t(isFull ? "newest.full" : "message.length")}</span>`}`;
}

/** Moves between the variants of a message; renders nothing when there is only one. */
function Siblings(props) {
  return props.siblings.length > 1 && html`<${Variants} ...${props} />`;
}

function Variants({ message, siblings, reused, conversation }) {
  const busy = useBusy(conversation);
  const index = siblings.findIndex(({ id }) => id === message.id);
  const step = async (by) => {
    await conversation.choose(siblings[index + by]);
    requestAnimationFrame(() => focusOnStep(message.parent, by));
  };
  return html`
    <span class="siblings figure" data-test="siblings" data-parent=${String(message.parent)}>
      <${IconButton}
        small
        icon="left"
        label=${t("branch.before")}
        data-step="-1"
        disabled=${index === 0 || busy}
        onClick=${() => step(-1)}
      />
      ${index + 1}/${siblings.length}
      <${IconButton}
        small
        icon="right"
        label=${t("branch.after")}
        data-step="1"
        disabled=${index === siblings.length - 1 || busy}
        onClick=${() => step(1)}
      />
      ${reused >= MIN_SHARED_TOKENS && html`
        <span title=${t("branch.shares.long")}>${t("branch.shares", { tokens: reused })}</span>`}
    </span>`;
}

/** The message that was left took the focus with it: the arrow of the one in its place gets it, unless the user has
    given it to something else meanwhile. */
function focusOnStep(parent, by) {
  const { activeElement: focused, body } = document;
  const place = document.querySelector(`.siblings[data-parent="${parent}"]`);
  if (focused !== body && focused.id !== "content" && !place?.contains(focused)) return;
  const arrow = (by) => place?.querySelector(`[data-step="${by}"]:not(:disabled)`);
  (arrow(by) ?? arrow(-by))?.focus({ preventScroll: true });
}
