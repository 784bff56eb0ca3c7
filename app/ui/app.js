// The page begins here: the frame, which page is shown in it, and the keys that work everywhere.
//
// - A page is a component in `pages/`, listed below; it is loaded when it is shown first.

import { access, address, applyTheme, bind, classes, go, html, preferences, render, route, speak, spoken, t, useEffect, useState, useStore } from "/lib.js";
import { Help, help, Icon, Questions, ShowSide, showSide, side, Toasts, told } from "/parts.js";
import { Banner } from "./banner.js";
import { Connect } from "./pages/connect.js";
import { ChatPage } from "./chat/page.js";
import { chats, keepLooking, loadChats, shown, status } from "./chat/chats.js";
import { Chats } from "./chat/side.js";
import { newTalk, talkOf } from "./chat/talk.js";

/** Beside chats. Each module exports `Page`. */
const PAGES = {
  memory: () => import("./pages/memory/page.js"),
  profiles: () => import("./pages/profiles/page.js"),
  models: () => import("./pages/models/page.js"),
  settings: () => import("./pages/settings.js"),
};

const AGAIN_MS = 1500;

function App() {
  const { page, detail } = useStore(route);
  const { open } = useStore(side);
  const likes = useStore(preferences);
  const [hasAccess, setAccess] = useState(access.has());
  useEffect(() => access.subscribe(() => setAccess(access.has())), []);
  useEffect(() => side.set({ open: false }), [page, detail]);
  const { language } = useStore(spoken);
  useEffect(() => {
    applyTheme();
    told(speak());
  }, [likes]);
  useEffect(() => {
    if (hasAccess) begin();
  }, [hasAccess]);
  if (!hasAccess) return html`<${Connect} />`;
  return html`
    <a class="button skip" href="#content" onClick=${skip}>${t("skip")}</a>
    <div class=${classes("app", !likes.sidebar && "narrow-side", open && "side-open")}>
      ${(likes.sidebar || open) && html`<nav class="side" aria-label=${t("side.label")}><${Chats} /><${Places} page=${page} /></nav>`}
      ${open && html`<div class="side-shade" onClick=${() => side.set({ open: false })}></div>`}
      <div class="page">
        <${Banner} />
        ${page === "chat" ? html`<${ChatPage} key=${language} id=${detail ?? draft()} />` : html`<${Loaded} key=${page + language} page=${page} detail=${detail} />`}
      </div>
    </div>
    <${Help} /><${Questions} /><${Toasts} />`;
}

/** A chat that nobody has spoken in yet. Its address follows with its first words. */
let unspoken = null;
function draft() {
  if (unspoken) return unspoken.id;
  const talk = (unspoken = newTalk());
  const stop = talk.store.subscribe(({ live }) => {
    if (!live) return;
    stop();
    unspoken = null;
    const { page, detail } = route.get();
    if (page === "chat" && !detail) go("chat", talk.id);
  });
  return talk.id;
}

function Loaded({ page, detail }) {
  const [Page, setPage] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (!PAGES[page]) return void go("chat");
    PAGES[page]().then((module) => setPage(() => module.Page), setError);
  }, [page]);
  return html`
    <header class="page-head"><${ShowSide} /><h1>${PAGES[page] ? t(`page.${page}`) : ""}</h1></header>
    <main class="page-body" id="content" tabindex="-1" data-test=${`page-${page}`}>
      ${error && html`<p class="error">${error.message}</p>`}
      <div class="stack page-width">${Page && html`<${Page} detail=${detail} />`}</div>
    </main>`;
}

function Places({ page }) {
  return html`<div class="side-nav">${Object.keys(PAGES).map((name) => html`
    <a href=${address(name)} aria-current=${page === name ? "page" : null} data-test=${`to-${name}`}><${Icon} name=${name} />${t(`page.${name}`)}</a>`)}</div>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

let begun = false;

/** Reads what there is; while the daemon is away, again and again. */
async function begin() {
  if (begun) return;
  begun = true;
  try {
    await loadChats();
    await keepLooking();
    // The model that is set cannot be run: somebody should choose.
    if (status.get().now?.switch_error?.at_start && !location.hash) go("models", "first");
  } catch {
    begun = false;
    if (access.has()) setTimeout(begin, AGAIN_MS);
  }
}

/** To the next chat of the list, or the one before. */
function step(by) {
  const list = shown(chats.get());
  const at = list.findIndex(({ id }) => id === route.get().detail);
  const next = list[Math.max(0, Math.min(list.length - 1, at + by))];
  if (next) go("chat", next.id);
}

bind("Mod+K", "keys.search", () => {
  showSide(true);
  requestAnimationFrame(() => document.querySelector('[data-test="search"]')?.focus());
});
bind("Alt+N", "keys.new", () => go("chat"));
bind("Alt+ArrowDown", "keys.next", () => step(1));
bind("Alt+ArrowUp", "keys.previous", () => step(-1));
bind("/", "keys.write", () => document.querySelector('[data-test="composer"]')?.focus());
bind("Escape", "keys.stop", () => {
  if (side.get().open) return side.set({ open: false });
  const { page, detail } = route.get();
  const talk = page === "chat" && detail && talkOf(detail);
  if (!talk || !talk.store.get().live) return false;
  talk.stop();
}, { whileTyping: true });
bind("Mod+B", "keys.side", () => showSide());
bind("Alt+1", "page.chat", () => go("chat", route.get().page === "chat" ? route.get().detail ?? undefined : undefined));
Object.keys(PAGES).forEach((page, index) => bind(`Alt+${index + 2}`, `page.${page}`, () => go(page)));
bind("?", "keys.help", () => help.set({ open: true }));

applyTheme();
await speak();
render(html`<${App} />`, document.getElementById("page"));
