import {
  classes,
  html,
  importModule,
  lazy,
  t,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useStore,
  whenIdle,
  withTexts,
} from "/lib.js";
import { Button, Icon, IconButton, useNextFocus } from "/parts.js";
import { drops, takeDrops } from "../documents/drops.js";
import { takeDocument } from "./about.js";
import { chatOf, chats, status } from "./chats.js";
import { Composer } from "./composer.js";
import { isNearlyFull, shareOf, useContextUse } from "./context.js";
import { conversationOf, visiblePath } from "./conversation.js";
import { useReading } from "./daemon.js";
import { Demo } from "./demo.js";
import { findBar, finding } from "./finding.js";
import { Header } from "./header.js";
import { useHit } from "./hit.js";
import { Stored } from "./stored.js";
import { richText } from "./text.js";
import { textOf } from "./tree.js";
import { Suggestions, Welcome } from "./welcome.js";

const room = lazy(() => withTexts(importModule("/chat/room.js")));

const NEAR_END_PX = 80;

/** `place`: the message to show, as the address names it. */
export function ChatPage({ id, place }) {
  const conversation = conversationOf(id);
  const state = useStore(conversation.store);
  const chat = useStore(chats, () => chatOf(id));
  const isAnswered = useStore(status, ({ now }) => now?.answering?.includes(id) ?? false);
  useReading(() => {
    conversation.open();
    if (state.state === "new") whenIdle(richText.load);
    // Beside the messages, which it draws.
    else richText.load();
  }, [id, isAnswered, Boolean(chat)]);
  const count = chat?.message_count;
  useEffect(() => {
    // Another client has written or deleted messages.
    if (chat && state.state === "ready" && count !== state.count) conversation.open();
  }, [count]);
  const isOver = useStore(drops, ({ isOver }) => isOver);
  useEffect(() => takeDocument(conversation), [conversation]);
  useLayoutEffect(
    () => takeDrops((files) => files.forEach((file) => conversation.attachments.add(file))),
    [conversation],
  );
  const isEmpty = state.state !== "unread" && !state.messages.length && !state.pending.length;
  const use = useContextUse(conversation, state, chat);
  const [isRoomOpen, setRoomOpen] = useState(false);
  useEffect(() => setRoomOpen(false), [id]);
  useNextFocus(() => state.live ? document.querySelector("[data-test=composer]") : null);
  const parts = { conversation, state, use, chat };
  return html`
    <${Header} ...${parts} room=${isRoomOpen} toggleRoom=${() => setRoomOpen(!isRoomOpen)} />
    <main
      class=${classes("page talk-page", isEmpty && "fresh", isOver && "drop-here")}
      id="content"
      tabindex="-1"
    >
      ${isOver && html`<p class="drop-words" data-test="drop-here">${t("drop.here")}</p>`}
      ${isEmpty
        ? html`<${Welcome} conversation=${conversation} isUnknown=${state.isUnknown} />`
        : html`<${Messages} key=${id} conversation=${conversation} state=${state} place=${place} />`}
      ${state.error && html`<${Failure} ...${parts} />`}
      ${!isEmpty && html`<${Demo} />`}
      ${!state.outgrown && html`<${MakeRoom} ...${parts} isOpen=${isRoomOpen} setOpen=${setRoomOpen} />`}
      <${Composer} key=${id} conversation=${conversation} />
      ${isEmpty && html`<${Suggestions} conversation=${conversation} />`}
    </main>`;
}

/** The note that a context is nearly full, until it is dismissed; or, where asked for, what to do about it. */
function MakeRoom({ conversation, state, use, chat, isOpen, setOpen }) {
  const [dismissed, setDismissed] = useState(null);
  const isOffered = use && isNearlyFull(use) && !state.live && dismissed !== conversation.id;
  const isShown = isOpen || Boolean(state.shortening);
  const module = room.use(Boolean(isShown || isOffered));
  if (!module) return null;
  if (isShown) {
    const close = () => setOpen(false);
    return html`
      <div class="composer-inner">
        <${module.Room} conversation=${conversation} state=${state} use=${use} chat=${chat} onClose=${close} />
      </div>`;
  }
  return isOffered && html`
    <${module.NearlyFull}
      percent=${Math.floor(100 * shareOf(use))}
      open=${() => setOpen(true)}
      dismiss=${() => setDismissed(conversation.id)}
    />`;
}

function Messages({ conversation, state, place }) {
  const { messages, head, pending, live, keys } = state;
  const path = useMemo(() => visiblePath(state), [messages, head, pending, live?.began]);
  const busy = Boolean(live);
  const hit = useHit(conversation, state, path, place);
  const restarts = [state.state === "unread", live?.began];
  const { frame, atEnd, toEnd, leaveEnd, scrolled } = useScrollToEnd(restarts, busy, hit);
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
          <${Stored}
            messages=${messages}
            path=${path}
            instructions=${state.instructions}
            conversation=${conversation}
            pending=${pending}
            live=${live}
            keys=${keys}
            hit=${hit}
          />
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
  // where the frame was scrolled to, and its height then
  const stood = useRef({});
  const toEnd = () => {
    frame.current.scrollTop = frame.current.scrollHeight;
    const { scrollTop, clientHeight } = frame.current;
    stood.current = { scrollTop, clientHeight };
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
  const wasBusy = useRef(busy);
  useLayoutEffect(() => {
    const isNewHit = hit !== shownHit.current;
    const isAtHit = isNewHit && hit !== null && !busy;
    const hasEnded = wasBusy.current && !busy;
    shownHit.current = hit;
    wasBusy.current = busy;
    // Who has gone up reads on there.
    if (hasEnded && !isNewHit) return;
    setAtEnd(!isAtHit);
    if (!isAtHit) toEnd();
  }, [...restarts, hit]);
  const height = useRef(0);
  // The frame may be unmounted when the event arrives.
  const scrolled = ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
    const rest = scrollHeight - scrollTop - clientHeight;
    const isNear = rest < NEAR_END_PX;
    // The next line of an answer would take back who goes up by a small step. A frame that has become higher, or a
    // text that has become shorter, stands at its very end.
    const isSameFrame = clientHeight === stood.current.clientHeight;
    const goesUp = busy && rest > 1 && isSameFrame && scrollTop < stood.current.scrollTop;
    stood.current = { scrollTop, clientHeight };
    // Messages that are laid out, or drawn once the parser is loaded, move the end away from a reader at the end.
    const hasMoved = !busy && atEnd && !isNear && scrollHeight !== height.current;
    height.current = scrollHeight;
    if (hasMoved) toEnd();
    else setAtEnd(isNear && !goesUp);
  };
  return { frame, atEnd, toEnd, leaveEnd, scrolled };
}

/** Screen readers announce a new answer; older messages stay silent, also behind a request that has failed. */
function Announcer({ path, busy, isStopping }) {
  const hasStreamed = useRef(false);
  // the last message while none streams in, and before the latest answer: the same object until it changes
  const quiet = useRef();
  const before = useRef();
  const last = path.at(-1);
  hasStreamed.current ||= busy;
  if (busy) before.current = quiet.current;
  else quiet.current = last;
  const isNew = hasStreamed.current && last?.role === "assistant" && last !== before.current;
  const text = isNew ? textOf(last) : "";
  return html`
    <div class="hidden-text" role="status" aria-live="polite">
      ${busy ? t(isStopping ? "reading.stopping" : "chat.answering") : text}
    </div>`;
}

function Failure({ conversation, state, use, chat }) {
  const { error, outgrown } = state;
  const answered = useStore(status, ({ now, error }) => (error ? null : now));
  const before = useRef(answered);
  const module = room.use(Boolean(outgrown));
  useEffect(() => {
    if (answered && answered !== before.current) conversation.recover();
  }, [answered]);
  return html`
    <div class="composer-inner stack" role="alert" data-test="failure">
      <div class="row error">
        <${Icon} name="warning" />
        <span class="grow">${outgrown ? t("newest.outgrown") : error.message}</span>
        <${IconButton} icon="close" label=${t("close")} onClick=${conversation.dismissError} />
      </div>
      ${outgrown && module && html`
        <${module.Room} conversation=${conversation} state=${state} use=${use} chat=${chat} />`}
    </div>`;
}
