// The list of chats, of any length: one Tab stop, arrow keys within.

import {
  address,
  ago,
  classes,
  html,
  locale,
  route,
  t,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useStore,
} from "/lib.js";
import { Icon, Menu, VirtualList } from "/parts.js";
import { actions, deleteChats } from "./actions.js";
import { useAnswering } from "./answering.js";
import { restore, status } from "./chats.js";
import { conversationOf } from "./conversation.js";
import { grouped, untilMidnight } from "./groups.js";
import { pickAll, picked, pickRange, toggle, unpick } from "./picked.js";
import { ReadyIcon } from "./ready.js";
import { kvFields } from "./request.js";

/** In rem, as `list.css` has what is in them: 44, 56 and 30 px, unless the browser is set to another text size. Of a
    chat whose text was found, the row has a second line. */
const ROW_REM = 44 / 15;
const FOUND_ROW_REM = 56 / 15;
const HEAD_REM = 2;
/** Of a chat under the pointer for this long, what is saved is restored. */
const HOVER_MS = 150;

/** `list`: the chats that match the search, `isSearch`, or all of them. */
export function List({ list, isSearch }) {
  const current = useStore(route, ({ page, detail }) => (page === "chat" ? detail : null));
  const { ids } = useStore(picked);
  const answering = useAnswering();
  const groups = useGroups(list, isSearch);
  const shown = useMemo(() => groups.flatMap(({ items }) => items), [groups]);
  const currentIndex = shown.findIndex(({ id }) => id === current);
  const { index, focusOn, setActive } = useRoving(shown, isSearch ? 0 : currentIndex);
  const onKeyDown = (event) => {
    if (event.target.closest("[role=menu]")) return;
    const isHandled = move(event, { shown, index, focusOn, current }) || pick(event, { shown, index, focusOn });
    if (!isHandled) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const row = (chat, at, place) => html`
    <${Row}
      key=${chat.id}
      chat=${chat}
      isCurrent=${chat.id === current}
      isPicked=${ids.has(chat.id)}
      isPicking=${ids.size > 0}
      isAnswering=${answering.has(chat.id)}
      isStop=${at === index}
      onFocus=${() => setActive(chat.id)}
      onPick=${(event) => clicked(event, shown, chat.id, current)}
      ...${place}
    />`;
  return html`
    <${VirtualList}
      class=${classes("chats", isSearch && "found")}
      data-test="chats"
      groups=${groups}
      height=${isSearch ? FOUND_ROW_REM : ROW_REM}
      headHeight=${HEAD_REM}
      row=${row}
      current=${currentIndex}
      kept=${index}
      label=${t("chat.list")}
      onKeyDown=${onKeyDown}
    />`;
}

/** The groups change at midnight, also while nothing else does, and their heads with the language. */
function useGroups(list, isSearch) {
  const { language } = useStore(locale);
  const [day, setDay] = useState(0);
  useEffect(() => {
    const timer = setTimeout(() => setDay(day + 1), untilMidnight());
    return () => clearTimeout(timer);
  }, [day]);
  return useMemo(() => {
    if (isSearch) return [{ name: "found", label: null, items: list }];
    return grouped(list).map((group) => ({ ...group, label: t(`chat.group.${group.name}`) }));
  }, [list, isSearch, day, language]);
}

/** The row that Tab leads to: the one that had the focus last, or the open chat, or the first. */
function useRoving(shown, otherwise) {
  const [active, setActive] = useState(null);
  const wantsFocus = useRef(false);
  const found = shown.findIndex(({ id }) => id === active);
  const index = found === -1 ? Math.max(0, otherwise) : found;
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    document.querySelector('.chat-link[tabindex="0"]')?.focus();
  });
  const focusOn = (at) => {
    wantsFocus.current = true;
    setActive(shown[Math.max(0, Math.min(shown.length - 1, at))]?.id ?? null);
  };
  return { index, focusOn, setActive };
}

const PAGE_ROWS = 10;

/** Arrow keys, Home, End and the page keys move; with Shift they pick what they pass. */
function move(event, { shown, index, focusOn, current }) {
  const { key, shiftKey, target } = event;
  const row = target.closest("[data-test=chat]");
  if (key === "ArrowRight" || key === "ArrowLeft") {
    const place = key === "ArrowRight" ? "button" : ".chat-link";
    row?.querySelector(place)?.focus();
    return Boolean(row);
  }
  const steps = {
    ArrowDown: index + 1,
    ArrowUp: index - 1,
    PageDown: index + PAGE_ROWS,
    PageUp: index - PAGE_ROWS,
    Home: 0,
    End: shown.length - 1,
  };
  if (!(key in steps) || event.altKey || event.ctrlKey || event.metaKey) return false;
  const to = Math.max(0, Math.min(shown.length - 1, steps[key]));
  if (shiftKey) pickRange(shown, shown[index]?.id ?? current, shown[to]?.id);
  focusOn(to);
  return true;
}

/** Space picks, Ctrl+A picks all, Delete deletes, Escape picks none. */
function pick(event, { shown, index, focusOn }) {
  const { key, ctrlKey, metaKey, target } = event;
  const chat = shown[index];
  if (!target.closest(".chat-link") || !chat) return false;
  const { ids } = picked.get();
  const remove = () => {
    const isKept = ({ id }) => (ids.size ? !ids.has(id) : id !== chat.id);
    const next = shown.slice(index).find(isKept) ?? shown.slice(0, index).findLast(isKept);
    if (next) focusOn(shown.indexOf(next));
    deleteChats(shown.filter((other) => !isKept(other)));
  };
  if (key === " ") toggle(chat.id);
  else if (key === "a" && (ctrlKey || metaKey)) pickAll(shown);
  else if (key === "Delete") remove();
  else if (key === "Escape" && ids.size) unpick();
  else return false;
  return true;
}

/** Ctrl and Shift pick, as in a list of files. */
function clicked(event, shown, id, current) {
  if (event.shiftKey) pickRange(shown, current, id);
  else if (event.ctrlKey || event.metaKey) toggle(id);
  else return unpick();
  event.preventDefault();
}

function Row(props) {
  const { chat, isCurrent, isPicked, isPicking, isStop, style, position, of, onFocus, onPick } = props;
  // Renders no menu before the pointer or the focus comes: the list may have thousands of rows.
  const [wasNear, setWasNear] = useState(false);
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const enter = () => {
    setWasNear(true);
    const restoreChat = () => restore(chat.id, kvFields(conversationOf(chat.id).store.get()));
    timer.current = setTimeout(restoreChat, HOVER_MS);
  };
  const leave = () => clearTimeout(timer.current);
  const focused = () => {
    setWasNear(true);
    onFocus();
  };
  const title = chat.title ?? t("chat.untitled");
  const hit = chat.snippet?.message;
  return html`
    <div
      class=${classes("chat-row", isCurrent && "current", isPicked && "picked")}
      role="listitem"
      aria-posinset=${position}
      aria-setsize=${of}
      style=${style}
      data-test="chat"
      onMouseEnter=${enter}
      onMouseLeave=${leave}
      onFocusIn=${focused}
    >
      <a
        class="chat-link"
        href=${address("chat", chat.id, hit)}
        aria-current=${isCurrent ? "page" : null}
        tabindex=${isStop ? 0 : -1}
        onClick=${onPick}
      >
        <${Sign} ...${props} />
        <span class="chat-text">
          <span class="chat-title" dir="auto" title=${title}>
            ${chat.pinned && html`
              <${Icon} name="pin" /><span class="hidden-text">${t("chat.pinned")}</span>`}
            ${chat.private && html`
              <${Icon} name="private" /><span class="hidden-text">${t("chat.private.mark")}</span>`}
            ${title}
          </span>
          ${chat.snippet && html`<${Snippet} ...${chat.snippet} />`}
        </span>
        <span class="when">${ago(chat.updated_at)}</span>
      </a>
      ${(wasNear || isCurrent) && !isPicking && html`
        <${Menu}
          label=${t("chat.menu.of", { title })}
          items=${actions(chat, { isListed: true })}
          test="row-menu"
          tabindex="-1"
        />`}
    </div>`;
}

/** In front of a title: whether the chat is picked, answers, or is ready. */
function Sign({ chat, isPicked, isPicking, isAnswering }) {
  if (isPicking) {
    return html`
      <span class="pick" data-test="pick">
        ${isPicked && html`<${Icon} name="check" /><span class="hidden-text">${t("chat.picked")}</span>`}
      </span>`;
  }
  if (isAnswering) {
    return html`
      <span class="pulse" data-test="answering" title=${t("chat.answering")}>
        <span class="hidden-text">${t("chat.answering.mark")}</span>
      </span>`;
  }
  // What an engine at another address has is not known.
  const ready = status.get().now?.upstream ? null : chat.ready;
  return html`<span class="chat-state"><${ReadyIcon} ready=${ready} read_ms=${chat.read_ms} /></span>`;
}

function Snippet({ text, start, end }) {
  return html`
    <span class="chat-snippet" dir="auto">
      ${text.slice(0, start)}<mark>${text.slice(start, end)}</mark>${text.slice(end)}
    </span>`;
}
