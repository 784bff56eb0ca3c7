// The sidebar: search, import, the list of chats, and the way to the trash.

import {
  address,
  go,
  html,
  importModule,
  isComposing,
  lazy,
  route,
  t,
  useMemo,
  useRef,
  useStore,
  withTexts,
} from "/lib.js";
import { Icon, IconButton, orToast, useNextFocus } from "/parts.js";
import { chats, isSearching, search, visibleChats } from "./chats.js";
import { newConversation } from "./conversation.js";
import { List } from "./list.js";
import { picked } from "./picked.js";

const pickedBar = lazy(() => withTexts(importModule("/chat/picked-bar.js")));

/** The row of the list to which Tab leads. */
const STOP = '.chat-link[tabindex="0"]';

/** The daemon searches for no more. */
const MAX_QUERY_LETTERS = 200;

export function Chats() {
  const state = useStore(chats);
  const list = useMemo(() => visibleChats(state), [state]);
  const isPicking = useStore(picked, ({ ids }) => ids.size > 0);
  const bar = pickedBar.use(isPicking);
  const isTrash = useStore(route, ({ page }) => page === "trash");
  // The bar and a row leave with the chats that their buttons delete.
  useNextFocus(() => document.querySelector(STOP) ?? document.querySelector("[data-test=search]"));
  return html`
    <div class="stack side-top">
      <${Top} />
      <${Search} query=${state.query} />
    </div>
    ${isPicking && bar && html`<${bar.PickedBar} list=${list} />`}
    ${state.loaded && !list.length && !isSearching(state)
      ? html`<p class="empty grow">${t(state.query ? "chat.none-found" : "chat.none")}</p>`
      : html`<${List} key=${Boolean(state.query.trim())} list=${list} isSearch=${Boolean(state.query.trim())} />`}
    <a class="to-trash" href=${address("trash")} aria-current=${isTrash ? "page" : null} data-test="to-trash">
      <${Icon} name="trash" />${t("page.trash")}
    </a>`;
}

function Top() {
  const file = useRef();
  const chosen = async ({ target }) => {
    const files = [...target.files];
    target.value = "";
    const module = await orToast(withTexts(importModule("/chat/importing.js")));
    await module?.importChats(files);
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
      accept=".json,.jsonl,.md,.tar,.zip"
      multiple
      hidden
      aria-label=${t("chat.import")}
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
        maxlength=${MAX_QUERY_LETTERS}
        value=${query}
        placeholder=${t("chat.search")}
        data-test="search"
        onInput=${(event) => search(event.target.value)}
        onKeyDown=${handleKey}
      />
    </label>`;
}

/** ↓ leads to the list. Escape empties the field before it stops an answer. */
function handleKey(event) {
  if (isComposing(event)) return;
  if (event.key === "ArrowDown") document.querySelector(STOP)?.focus();
  else if (event.key === "Escape" && event.target.value) search("");
  else return;
  event.preventDefault();
  event.stopPropagation();
}
