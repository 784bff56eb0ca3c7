// The sidebar: search, import, and the list of chats, of any length.

import { address, ago, classes, go, html, route, t, useEffect, useMemo, useRef, useState, useStore } from "/lib.js";
import { Icon, IconButton, Menu, State, VirtualList } from "/parts.js";
import { actions, importChat } from "./actions.js";
import { chats, restore, search, visibleChats } from "./chats.js";
import { conversationOf, newConversation } from "./conversation.js";

const ROW_PX = 56;
/** Of a chat under the pointer for this long, what is saved is restored. */
const HOVER_MS = 150;

export function Chats() {
  const state = useStore(chats);
  const list = useMemo(() => visibleChats(state), [state]);
  return html`
    <div class="stack side-top">
      <${Top} />
      <${Search} query=${state.query} />
    </div>
    ${state.loaded && !list.length
      ? html`<p class="empty grow">${t(state.query ? "chat.none-found" : "chat.none")}</p>`
      : html`<${List} list=${list} />`}`;
}

function Top() {
  const file = useRef();
  const chosen = (event) => {
    const [file] = event.target.files;
    if (file) importChat(file);
    event.target.value = "";
  };
  return html`
    <div class="row apart">
      <span class="brand"><img src="icon.svg" alt="" />Hob</span>
      <span>
        <${IconButton} icon="upload" label=${t("chat.import")} onClick=${() => file.current.click()} />
        <${IconButton}
          icon="private"
          label=${t("chat.private.new")}
          data-test="new-private"
          onClick=${() => go("chat", newConversation({ isPrivate: true }).id)}
        />
        <${IconButton} icon="plus" label=${t("chat.new")} onClick=${() => go("chat")} />
      </span>
    </div>
    <input
      type="file"
      accept=".json,.md,.tar"
      hidden
      ref=${file}
      data-test="import-file"
      onChange=${chosen}
    />`;
}

function Search({ query }) {
  return html`
    <label class="search">
      <span class="hidden-text">${t("chat.search")}</span><${Icon} name="search" />
      <input
        class="input"
        type="search"
        dir="auto"
        value=${query}
        placeholder=${t("chat.search")}
        data-test="search"
        onInput=${(event) => search(event.target.value)}
        onKeyDown=${focusList}
      />
    </label>`;
}

function focusList(event) {
  if (event.key !== "ArrowDown") return;
  document.querySelector(".chat-link")?.focus();
  event.preventDefault();
}

function List({ list }) {
  const current = useStore(route, ({ detail }) => detail);
  const row = (chat, index, style) => html`
    <${Row}
      key=${chat.id}
      chat=${chat}
      isCurrent=${chat.id === current}
      style=${style}
      index=${index}
      total=${list.length}
    />`;
  return html`
    <${VirtualList}
      class="chats"
      data-test="chats"
      items=${list}
      height=${ROW_PX}
      row=${row}
      current=${list.findIndex(({ id }) => id === current)}
      label=${t("chat.list")}
      onKeyDown=${focusNeighbour}
    />`;
}

function focusNeighbour(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest?.("[aria-posinset]");
  if (!step || !row) return;
  const next = Number(row.getAttribute("aria-posinset")) + step;
  document.querySelector(`[aria-posinset="${next}"] .chat-link`)?.focus();
  event.preventDefault();
}

function Row({ chat, isCurrent, style, index, total }) {
  // Renders no menu before the pointer or the focus comes: the list may have thousands of rows.
  const [wasNear, setWasNear] = useState(false);
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const enter = () => {
    setWasNear(true);
    const restoreChat = () => restore(chat.id, conversationOf(chat.id).store.get().profile);
    timer.current = setTimeout(restoreChat, HOVER_MS);
  };
  const leave = () => clearTimeout(timer.current);
  const title = chat.title ?? t("chat.untitled");
  return html`
    <div
      class=${classes("chat-row", isCurrent && "current")}
      role="listitem"
      aria-posinset=${index + 1}
      aria-setsize=${total}
      style=${style}
      data-test="chat"
      onMouseEnter=${enter}
      onMouseLeave=${leave}
      onFocusIn=${() => setWasNear(true)}
    >
      <a class="chat-link" href=${address("chat", chat.id)} aria-current=${isCurrent ? "page" : null}>
        <span class="chat-title" dir="auto">
          ${chat.pinned && html`
            <${Icon} name="pin" /><span class="hidden-text">${t("chat.pinned")}</span>`}
          ${chat.private && html`
            <${Icon} name="private" /><span class="hidden-text">${t("chat.private.mark")}</span>`}
          ${title}
        </span>
        <span class="chat-sub">
          <${State} place=${chat.place} />
          ${chat.snippet
            ? html`<${Snippet} ...${chat.snippet} />`
            : html`<span class="when">${ago(chat.updated_at)}</span>`}
        </span>
      </a>
      ${(wasNear || isCurrent) && html`
        <${Menu} label=${t("chat.menu.of", { title })} items=${actions(chat)} test="row-menu" />`}
    </div>`;
}

function Snippet({ text, start, end }) {
  return html`
    <span class="chat-snippet when" dir="auto">
      ${text.slice(0, start)}<mark>${text.slice(start, end)}</mark>${text.slice(end)}
    </span>`;
}
