// Entry point: the frame, the page shown in it, and the global keyboard shortcuts.
//
// - A page is a module that exports `Page`. It is listed below and loaded when first shown.

import {
  access,
  address,
  applyTheme,
  bind,
  classes,
  go,
  help,
  html,
  importModule,
  lazy,
  loadLanguage,
  locale,
  pause,
  preferences,
  render,
  route,
  t,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useStore,
  whenIdle,
  withTexts,
} from "/lib.js";
import { Icon, orToast, Questions, ShowSide, showSide, side, Toasts } from "/parts.js";
import { Banner } from "./banner.js";
import "./documents/drops.js";
import { chatOf, chats, loadChats, pollStatus, refreshStatus, status, visibleChats } from "./chat/chats.js";
import { conversationOf, newConversation } from "./chat/conversation.js";
import { find } from "./chat/finding.js";
import { ChatPage } from "./chat/page.js";
import { Chats } from "./chat/side.js";

const PAGES = {
  library: "/pages/library/page.js",
  memory: "/pages/memory/page.js",
  profiles: "/pages/profiles/page.js",
  models: "/pages/models/page.js",
  settings: "/pages/settings/page.js",
};

/** Beside those that the sidebar links. */
const ALL_PAGES = { ...PAGES, trash: "/pages/trash/page.js" };

/** The styles of those pages: they use each other's, and no chat needs them. */
let styles = null;

function loadStyles() {
  styles ??= loadStyle("pages").catch((error) => {
    // The next page tries again.
    styles = null;
    throw error;
  });
  return styles;
}

function loadStyle(name) {
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: `style/${name}.css` });
  return new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = () => {
      link.remove();
      reject(new Error(t("unreachable")));
    };
    document.head.append(link);
  });
}

async function importPage(page) {
  const [module] = await Promise.all([withTexts(importModule(ALL_PAGES[page])), loadStyles()]);
  return module;
}

const RETRY_MS = 1500;
const LIST_MS = 50;
const MAX_TRIES = 10;

function App() {
  const { page, detail, place } = useStore(route);
  const { open } = useStore(side);
  const { language } = useStore(locale);
  const settings = useStore(preferences);
  const [hasAccess, setAccess] = useState(access.has());
  useEffect(() => access.subscribe(() => setAccess(access.has())), []);
  useSideFocus(open);
  useEffect(() => {
    applyTheme();
    orToast(loadLanguage());
  }, [settings]);
  useEffect(() => {
    if (hasAccess) start();
  }, [hasAccess]);
  if (!hasAccess) return html`<${Connect} />`;
  const frame = classes("app", !settings.sidebar && "narrow-side", open && "side-open");
  return html`
    <a class="button skip" href="#content" inert=${open} onClick=${skipToContent}>${t("skip")}</a>
    <div class=${frame}>
      ${(settings.sidebar || open) && html`
        <nav class="side" aria-label=${t("side.label")} onClick=${closeAtLink}>
          <${Chats} /><${PageLinks} page=${page} />
        </nav>`}
      ${open && html`<div class="side-shade" onClick=${() => side.set({ open: false })}></div>`}
      <div class="page" inert=${open}>
        <${Banner} />
        ${page === "chat"
          ? html`<${ChatPage} key=${language} id=${detail ?? draftId()} place=${place} />`
          : html`<${LoadedPage} key=${page} page=${page} detail=${detail} />`}
      </div>
    </div>
    <${HelpOn} /><${Questions} /><${Toasts} />`;
}

/** While the sidebar overlays the page it has the focus; what opened it gets that back, unless another page has it. */
function useSideFocus(open) {
  useLayoutEffect(() => {
    if (!open) return undefined;
    const opener = document.activeElement;
    const nav = document.querySelector(".side");
    const first = nav.querySelector('.chat-link[tabindex="0"]') ?? nav.querySelector("button");
    first.focus({ preventScroll: true });
    return () => {
      const { activeElement: focused, body } = document;
      if (focused === body || nav.contains(focused)) opener?.focus({ preventScroll: true });
    };
  }, [open]);
}

const closeSide = () => side.get().open && side.set({ open: false });
route.subscribe(closeSide);

/** A link to what is shown already changes no route. */
function closeAtLink(event) {
  if (event.target.closest("a") && !event.defaultPrevented) closeSide();
}

/** Loaded for a browser without a token. */
const connect = lazy(async () => {
  await loadStyle("connect");
  return withTexts(importModule("/pages/connect.js"));
});

function Connect() {
  const page = connect.use();
  return page && html`<${page.Connect} />`;
}

const helpDialog = lazy(() => withTexts(importModule("/parts/help.js")));

function HelpOn() {
  const { open } = useStore(help);
  const module = helpDialog.use(open);
  return open && module && html`<${module.Help} onClose=${() => help.set({ open: false })} />`;
}

/** The conversation of the page without an address. */
let draft = null;

/** With its first message the draft gets an address. */
function draftId() {
  if (draft) return draft.id;
  const conversation = newConversation();
  draft = conversation;
  const unsubscribe = conversation.store.subscribe(({ live }) => {
    if (!live) return;
    unsubscribe();
    draft = null;
    const { page, detail } = route.get();
    if (page === "chat" && !detail) go("chat", conversation.id);
  });
  return conversation.id;
}

/** Whether the address that the browser opened is still shown. */
let isFirstPage = true;
window.addEventListener("hashchange", () => {
  isFirstPage = false;
});

/** Names the page in the window's title. A page that follows another gets the focus at its heading. */
function usePageHead(page, detail) {
  const heading = useRef();
  const title = ALL_PAGES[page] ? t(`page.${page}`) : "";
  useEffect(() => {
    document.title = title ? `${title} – Hob` : "Hob";
  }, [title]);
  useEffect(() => {
    if (!isFirstPage) heading.current.focus({ preventScroll: true });
  }, [page, detail]);
  return { heading, title };
}

/** In another language it is drawn again and keeps what is not saved yet: no component of these pages is `pure`. */
function LoadedPage({ page, detail }) {
  const { heading, title } = usePageHead(page, detail);
  const [Page, setPage] = useState(null);
  const [error, setError] = useState(null);
  const [tries, setTries] = useState(0);
  const isAway = useStore(status, ({ error }) => Boolean(error));
  useEffect(() => {
    if (!ALL_PAGES[page]) go("chat");
    else if (!Page && !isAway && tries < MAX_TRIES) load();
  }, [page, isAway, tries]);
  async function load() {
    try {
      const { Page } = await importPage(page);
      setPage(() => Page);
      setError(null);
    } catch (error) {
      setError(error);
      const isBack = await refreshStatus();
      // Waits while the daemon is away.
      setTimeout(() => setTries(tries + 1), isBack ? RETRY_MS : 0);
    }
  }
  return html`
    <header class="page-head">
      <${ShowSide} /><h1 tabindex="-1" ref=${heading}>${title}</h1>
    </header>
    <main class="page-body" id="content" tabindex="-1" data-test=${`page-${page}`}>
      ${error && html`<p class="error" role="alert">${error.message}</p>`}
      <div class="stack page-width">${Page && html`<${Page} detail=${detail} />`}</div>
    </main>`;
}

function PageLinks({ page }) {
  return html`
    <div class="side-nav">
      ${Object.keys(PAGES).map((name) => html`
        <a
          href=${address(name)}
          aria-current=${page === name ? "page" : null}
          data-test=${`to-${name}`}
        >
          <${Icon} name=${name} />${t(`page.${name}`)}
        </a>`)}
    </div>`;
}

function skipToContent(event) {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

let isStarted = false;

async function start() {
  if (isStarted) return;
  isStarted = true;
  try {
    const list = firstList ?? loadChats();
    firstList = null;
    await list;
    await pollStatus();
    whenIdle(() => Object.keys(ALL_PAGES).forEach((page) => importPage(page).catch(() => {})));
    // The configured model cannot be loaded: offer the others.
    if (status.get().now?.switch_error?.at_start && !location.hash) go("models", "first");
  } catch {
    isStarted = false;
    if (access.has()) setTimeout(start, RETRY_MS);
  }
}

/** The chat that was shown last; null for the one without an address. */
let lastChat = route.get().page === "chat" ? route.get().detail : null;
route.subscribe(({ page, detail }) => {
  if (page === "chat") lastChat = detail;
});

/** In a list of choices the keys open it. */
function showNeighbour(by) {
  if (document.activeElement?.matches("select")) return false;
  const list = visibleChats(chats.get());
  const current = list.findIndex(({ id }) => id === route.get().detail);
  const next = list[Math.max(0, Math.min(list.length - 1, current + by))];
  if (next) go("chat", next.id);
  return true;
}

function stopAnswer() {
  if (side.get().open) {
    side.set({ open: false });
    return true;
  }
  const { page, detail } = route.get();
  const conversation = page === "chat" && detail && conversationOf(detail);
  if (!conversation || !conversation.store.get().live) return false;
  conversation.stop();
  return true;
}

/** The chat before the page that is shown. One that was deleted meanwhile is none. */
function showChat() {
  const { page, detail } = route.get();
  const id = page === "chat" ? detail : lastChat;
  go("chat", id && chatOf(id) ? id : undefined);
}

/** Whether it has the focus now: what is hidden or not drawn yet gets none. */
function focusOn(test) {
  const element = document.querySelector(`[data-test="${test}"]`);
  element?.focus();
  return Boolean(element) && document.activeElement === element;
}

bind("Mod+K", "keys.search", () => {
  showSide(true);
  // At once where it is shown: the next key is for it.
  if (!focusOn("search")) requestAnimationFrame(() => focusOn("search"));
});
bind("Mod+F", "keys.find", find);
bind("Alt+N", "keys.new", () => go("chat"));
bind("Alt+ArrowDown", "keys.next", () => showNeighbour(1));
bind("Alt+ArrowUp", "keys.previous", () => showNeighbour(-1));
bind("/", "keys.write", () => focusOn("composer"));
bind("Escape", "keys.stop", stopAnswer, { whileTyping: true });
bind("Mod+B", "keys.side", () => showSide());
bind("Alt+1", "page.chat", showChat);
["memory", "profiles", "models", "settings", "library"].forEach((page, index) => {
  bind(`Alt+${index + 2}`, `page.${page}`, () => go(page));
});
bind("?", "keys.help", () => help.set({ open: true }));

/** The list of chats is asked for beside the texts; null once `start` waits for it. */
let firstList = access.has() ? loadChats() : null;
// `start` tries again.
const isListed = firstList?.catch(() => {});

/** One drawing with the list in place of two; a long list comes later. */
async function draw() {
  try {
    await loadLanguage();
  } catch {
    // Without texts there is nothing to show.
    setTimeout(draw, RETRY_MS);
    return;
  }
  await Promise.race([isListed, pause(LIST_MS)]);
  render(html`<${App} />`, document.getElementById("page"));
}

applyTheme();
draw();
