// A conversation, as a page.

import { classes, html, t, useEffect, useLayoutEffect, useMemo, useRef, useState, useStore } from "/lib.js";
import { Button, Icon, IconButton, Menu, ShowSide, State } from "/parts.js";
import { actions } from "./actions.js";
import { chatOf, chats, status } from "./chats.js";
import { Composer } from "./composer.js";
import { Live, Sent } from "./message.js";
import { Stored } from "./stored.js";
import { shownMessages, talkOf } from "./talk.js";
import { textOf } from "./tree.js";

const NEAR_END_PX = 80;

export function ChatPage({ id }) {
  const talk = talkOf(id);
  const state = useStore(talk.store);
  const chat = useStore(chats, () => chatOf(id));
  const isAway = useStore(status, ({ error }) => Boolean(error));
  useEffect(() => void (isAway || talk.open()), [id, isAway]);
  const isNew = state.state !== "unread" && !state.messages.length && !state.pending.length;
  return html`
    <header class="page-head">
      <${ShowSide} />
      <h1 class="grow" data-test="title">${chat?.title ?? t("chat.new")}</h1>
      ${chat && html`<${State} place=${chat.place} /><${Menu} label=${t("chat.menu")} items=${actions(chat)} test="chat-menu" />`}
    </header>
    <main class="page talk-page" id="content" tabindex="-1">
      ${isNew ? html`<div class="talk"><${Welcome} talk=${talk} /></div>` : html`<${Talk} key=${id} talk=${talk} state=${state} />`}
      ${state.error && html`<${Failure} talk=${talk} error=${state.error} />`}
      <${Composer} key=${id} talk=${talk} />
    </main>`;
}

function Talk({ talk, state }) {
  const frame = useRef();
  const [atEnd, setAtEnd] = useState(true);
  const { messages, head, pending, live } = state;
  const path = useMemo(() => shownMessages(state), [messages, head, pending, live?.began]);
  const toEnd = () => {
    frame.current.scrollTop = frame.current.scrollHeight;
  };
  useLayoutEffect(() => {
    if (!atEnd) return;
    const sizes = new ResizeObserver(toEnd);
    for (const one of [frame.current, frame.current.firstChild]) sizes.observe(one);
    return () => sizes.disconnect();
  }, [atEnd]);
  useLayoutEffect(() => {
    setAtEnd(true);
    toEnd();
  }, [state.state, live?.began]);
  // Of the event: it may come after the frame has left.
  const scrolled = ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) =>
    setAtEnd(scrollHeight - scrollTop - clientHeight < NEAR_END_PX);
  const busy = Boolean(live);
  const heard = useRef(false);
  heard.current ||= busy; // What was there before is not read out.
  const said = busy ? t("chat.answering") : heard.current && path.length ? textOf(path[path.length - 1]) : "";
  return html`<div class="talk-frame">
    <div class=${classes("talk", atEnd && "at-end")} ref=${frame} onScroll=${scrolled} data-test="talk" tabindex="-1">
      <div class="talk-inner">
        <${Stored} messages=${messages} path=${path} talk=${talk} busy=${busy} />
        ${pending.map((message, index) => html`<${Sent} key=${`sent-${index}`} message=${message} />`)}
        ${live && html`<${Live} key=${live.began} live=${live} />`}
      </div>
      <div class="hidden-text" role="status" aria-live="polite">${said}</div>
    </div>
    ${!atEnd && html`<${Button} kind="to-end" onClick=${toEnd} icon="down">${t("chat.to-end")}<//>`}
  </div>`;
}

function Failure({ talk, error }) {
  return html`<div class="composer-inner row error" role="alert" data-test="failure">
    <${Icon} name="warning" /><span class="grow">${error.message}</span>
    <${IconButton} icon="close" label=${t("close")} onClick=${talk.dismiss} />
  </div>`;
}

function Welcome({ talk }) {
  const suggestions = ["suggest.1", "suggest.2", "suggest.3"].map((name) => t(name));
  return html`<div class="stack welcome">
    <img src="icon.svg" alt="" /><h2>${t("welcome.title")}</h2><p class="note">${t("welcome.text")}</p>
    <div class="row suggestions">${suggestions.map((text) => html`<${Button} onClick=${() => talk.send(text)}>${text}<//>`)}</div>
  </div>`;
}
