// The chats at the side: search, and a list of any length.

import { address, ago, classes, go, html, route, t, useEffect, useMemo, useRef, useState, useStore } from "/lib.js";
import { Icon, IconButton, Menu, State, VirtualList } from "/parts.js";
import { actions, importChat } from "./actions.js";
import { chats, search, shown, warm } from "./chats.js";
import { talkOf } from "./talk.js";

const ROW_PX = 56;
const HOVER_MS = 150;

export function Chats() {
  const state = useStore(chats);
  const current = useStore(route, ({ detail }) => detail);
  const list = useMemo(() => shown(state), [state]);
  const at = list.findIndex(({ id }) => id === current);
  const file = useRef();
  const row = (chat, index, style) => html`<${Row} key=${chat.id} chat=${chat} isCurrent=${chat.id === current} style=${style} index=${index} total=${list.length} />`;
  return html`
    <div class="stack side-top">
      <div class="row apart"><span class="brand"><img src="icon.svg" alt="" />Hob</span>
        <span><${IconButton} icon="upload" label=${t("chat.import")} onClick=${() => file.current.click()} />
        <${IconButton} icon="plus" label=${t("chat.new")} onClick=${() => go("chat")} /></span></div>
      <input type="file" accept=".json,.md,.tar" hidden ref=${file} data-test="import-file" onChange=${(event) => {
        const [chosen] = event.target.files;
        if (chosen) importChat(chosen);
        event.target.value = "";
      }} />
      <label class="search"><span class="hidden-text">${t("chat.search")}</span><${Icon} name="search" />
        <input class="input" type="search" value=${state.query} placeholder=${t("chat.search")} data-test="search" onInput=${(event) => search(event.target.value)} onKeyDown=${down} /></label>
    </div>
    ${state.loaded && !list.length
      ? html`<p class="empty grow">${t(state.query ? "chat.none-found" : "chat.none")}</p>`
      : html`<${VirtualList} class="chats" data-test="chats" items=${list} height=${ROW_PX} row=${row} current=${at} label=${t("chat.list")} onKeyDown=${arrows} />`}`;
}

function down(event) {
  if (event.key !== "ArrowDown") return;
  document.querySelector(".chat-link")?.focus();
  event.preventDefault();
}

function arrows(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest?.("[aria-posinset]");
  if (!step || !row) return;
  const next = Number(row.getAttribute("aria-posinset")) + step;
  document.querySelector(`[aria-posinset="${next}"] .chat-link`)?.focus();
  event.preventDefault();
}

function Row({ chat, isCurrent, style, index, total }) {
  const [isNear, setNear] = useState(false);
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const wake = () => warm(chat.id, talkOf(chat.id).store.get().profile);
  const over = () => {
    setNear(true);
    timer.current = setTimeout(wake, HOVER_MS);
  };
  const out = () => clearTimeout(timer.current);
  const title = chat.title ?? t("chat.untitled");
  return html`<div class=${classes("chat-row", isCurrent && "current")} role="listitem" aria-posinset=${index + 1} aria-setsize=${total} style=${style}
      data-test="chat" onMouseEnter=${over} onMouseLeave=${out} onFocusIn=${() => setNear(true)}>
    <a class="chat-link" href=${address("chat", chat.id)} aria-current=${isCurrent ? "page" : null}>
      <span class="chat-title">${chat.pinned && html`<${Icon} name="pin" /><span class="hidden-text">${t("chat.pinned")}</span>`}${title}</span>
      <span class="chat-sub"><${State} place=${chat.place} />${chat.snippet ? html`<${Snippet} of=${chat.snippet} />` : html`<span class="when">${ago(chat.updated_at)}</span>`}</span>
    </a>
    ${(isNear || isCurrent) && html`<${Menu} label=${t("chat.menu.of", { title })} items=${actions(chat)} test="row-menu" />`}
  </div>`;
}

function Snippet({ of: { text, start, end } }) {
  return html`<span class="chat-snippet when">${text.slice(0, start)}<mark>${text.slice(start, end)}</mark>${text.slice(end)}</span>`;
}
