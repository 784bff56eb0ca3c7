import { classes, html, t, useEffect, useLayoutEffect, useMemo, useRef, useState, useStore } from "/lib.js";
import { Button, Icon, IconButton, Menu, ShowSide, State } from "/parts.js";
import { drops, takeDrops } from "../documents/drops.js";
import { takeDocument } from "./about.js";
import { actions } from "./actions.js";
import { chatOf, chats, isPrivate, status } from "./chats.js";
import { Composer } from "./composer.js";
import { conversationOf, visiblePath } from "./conversation.js";
import { Demo } from "./demo.js";
import { findBar, finding } from "./finding.js";
import { useHit } from "./hit.js";
import { Live, Sent } from "./message.js";
import { Stored } from "./stored.js";
import { richText } from "./text.js";
import { textOf } from "./tree.js";

const NEAR_END_PX = 80;

/** `place`: the message to show, as the address names it. */
export function ChatPage({ id, place }) {
  const conversation = conversationOf(id);
  const state = useStore(conversation.store);
  const chat = useStore(chats, () => chatOf(id));
  const isAway = useStore(status, ({ error }) => Boolean(error));
  const isAnswered = useStore(status, ({ now }) => now?.answering?.includes(id) ?? false);
  useEffect(() => {
    if (isAway) return;
    conversation.open();
    richText.load(); // Beside the messages, which it draws.
  }, [id, isAway, isAnswered, Boolean(chat)]);
  const isOver = useStore(drops, ({ isOver }) => isOver);
  useEffect(() => takeDocument(conversation), [conversation]);
  useEffect(
    () => takeDrops((files) => files.forEach((file) => conversation.attachments.add(file))),
    [conversation],
  );
  const isEmpty = state.state !== "unread" && !state.messages.length && !state.pending.length;
  return html`
    <header class="page-head">
      <${ShowSide} />
      <h1 class="grow" dir="auto" data-test="title">
        ${chat?.title ?? t(isPrivate(id) ? "chat.private.new" : "chat.new")}
      </h1>
      ${isPrivate(id) && html`
        <span class="state" data-test="private" title=${t("chat.private.long")}>
          <${Icon} name="private" />${t("chat.private")}
        </span>`}
      ${chat && html`
        <${State} place=${chat.place} />
        <${Menu} label=${t("chat.menu")} items=${actions(chat)} test="chat-menu" />`}
    </header>
    <main class=${classes("page talk-page", isOver && "drop-here")} id="content" tabindex="-1">
      ${isOver && html`<p class="drop-words" data-test="drop-here">${t("drop.here")}</p>`}
      ${isEmpty
        ? html`<div class="talk"><${Welcome} conversation=${conversation} isUnknown=${state.isUnknown} /></div>`
        : html`<${Messages} key=${id} conversation=${conversation} state=${state} place=${place} />`}
      ${state.error && html`<${Failure} conversation=${conversation} state=${state} />`}
      <${Demo} />
      <${Composer} key=${id} conversation=${conversation} />
    </main>`;
}

function Messages({ conversation, state, place }) {
  const { messages, head, pending, live } = state;
  const path = useMemo(() => visiblePath(state), [messages, head, pending, live?.began]);
  const busy = Boolean(live);
  const hit = useHit(conversation, state, path, place);
  const { frame, atEnd, toEnd, leaveEnd, scrolled } = useScrollToEnd([state.state, live?.began], busy, hit);
  const isFinding = useStore(finding, ({ open }) => open);
  const bar = findBar.use(isFinding);
  return html`
    <div class="talk-frame">
      ${isFinding && bar && html`<${bar.FindBar} frame=${frame} leaveEnd=${leaveEnd} />`}
      <div
        class=${classes("talk", atEnd && "at-end")}
        ref=${frame}
        onScroll=${scrolled}
        data-test="talk"
        tabindex="-1"
      >
        <div class="talk-inner">
          <${Stored} messages=${messages} path=${path} conversation=${conversation} busy=${busy} hit=${hit} />
          ${pending.map((message, index) => html`
            <${Sent} key=${`sent-${index}`} message=${message} />`)}
          ${live && html`<${Live} key=${live.began} live=${live} />`}
        </div>
        <${Announcer} path=${path} busy=${busy} isStopping=${live?.isStopping} />
      </div>
      ${!atEnd && html`
        <${Button} kind="to-end" onClick=${toEnd} icon="down">${t("chat.to-end")}<//>`}
    </div>`;
}

/** Follows new text until the user scrolls up. `hit`: a message that is shown first, in place of the end. */
function useScrollToEnd(restarts, busy, hit) {
  const frame = useRef();
  const [atEnd, setAtEnd] = useState(true);
  const toEnd = () => {
    frame.current.scrollTop = frame.current.scrollHeight;
  };
  /** What is found elsewhere stays in sight. */
  const leaveEnd = () => setAtEnd(frame.current.scrollHeight - frame.current.clientHeight < NEAR_END_PX);
  useLayoutEffect(() => {
    if (!atEnd) return;
    const observer = new ResizeObserver(toEnd);
    observer.observe(frame.current);
    observer.observe(frame.current.firstChild);
    return () => observer.disconnect();
  }, [atEnd]);
  const shownHit = useRef(null);
  useLayoutEffect(() => {
    const isAtHit = hit !== shownHit.current && hit !== null && !busy;
    shownHit.current = hit;
    setAtEnd(!isAtHit);
    if (!isAtHit) toEnd();
  }, [...restarts, hit]);
  const height = useRef(0);
  // The frame may be unmounted when the event arrives.
  const scrolled = ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
    const isNear = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    // Messages that are laid out, or drawn once the parser is loaded, move the end away from a reader at the end.
    const hasMoved = !busy && atEnd && !isNear && scrollHeight !== height.current;
    height.current = scrollHeight;
    if (hasMoved) toEnd();
    else setAtEnd(isNear);
  };
  return { frame, atEnd, toEnd, leaveEnd, scrolled };
}

/** Screen readers announce a new answer; older messages stay silent. */
function Announcer({ path, busy, isStopping }) {
  const hasStreamed = useRef(false);
  hasStreamed.current ||= busy;
  const last = path.at(-1);
  const text = hasStreamed.current && last ? textOf(last) : "";
  return html`
    <div class="hidden-text" role="status" aria-live="polite">
      ${busy ? t(isStopping ? "reading.stopping" : "chat.answering") : text}
    </div>`;
}

function Failure({ conversation, state: { error, outgrown } }) {
  const answered = useStore(status, ({ now, error }) => (error ? null : now));
  const before = useRef(answered);
  useEffect(() => {
    if (answered && answered !== before.current) conversation.recover();
  }, [answered]);
  return html`
    <div class="composer-inner row error" role="alert" data-test="failure">
      <${Icon} name="warning" />
      <span class="grow">${outgrown ? t("newest.outgrown") : error.message}</span>
      ${outgrown && html`
        <${Button} onClick=${conversation.goOn} title=${t("newest.go-on.long")} data-test="go-on">
          ${t("newest.go-on")}
        <//>`}
      <${IconButton} icon="close" label=${t("close")} onClick=${conversation.dismissError} />
    </div>`;
}

function Welcome({ conversation, isUnknown }) {
  if (isPrivate(conversation.id)) return html`<${PrivateWelcome} />`;
  const suggestions = ["suggest.1", "suggest.2", "suggest.3"].map((name) => t(name));
  return html`
    <div class="stack welcome">
      <img src="icon.svg" alt="" />
      <h2>${t("welcome.title")}</h2>
      ${isUnknown && html`<p class="note" data-test="unknown">${t("welcome.unknown")}</p>`}
      <p class="note">${t("welcome.text")}</p>
      <div class="row suggestions">
        ${suggestions.map((text) => html`
          <${Button} onClick=${() => conversation.send(text)}>${text}<//>`)}
      </div>
    </div>`;
}

function PrivateWelcome() {
  return html`
    <div class="stack welcome">
      <${Icon} name="private" />
      <h2>${t("chat.private.title")}</h2>
      <p class="note">${t("chat.private.long")}</p>
    </div>`;
}
