// The chats that were deleted: restore them, or delete them for good before the daemon does.

import { ago, api, createStore, every, html, t, useEffect, useStore } from "/lib.js";
import { ask, Button, Icon, toast, useNextFocus } from "/parts.js";
import { Reading } from "/parts/reading.js";
import { chats } from "/chat/chats.js";
import { useReading } from "/chat/daemon.js";
import { deleteForGood, restoreChats } from "/chat/deleting.js";

/** How long ago a chat was deleted is shown to the minute. */
const REFRESH_MS = 30_000;

/** `list`: null until it is read. `retentionMs`: how long the daemon keeps a deleted chat. `error`: of the last try to
    read it. */
const trash = createStore({ list: null, retentionMs: 0, error: null });

let asked = 0;

async function refresh() {
  asked += 1;
  const mine = asked;
  try {
    const { data, retention_secs: secs } = await api.get("/v1/conversations?trashed=true");
    // A later one is on its way.
    if (mine !== asked) return;
    trash.set({ list: data.sort(byDeletion), retentionMs: secs * 1000, error: null });
  } catch (error) {
    trash.set({ error });
  }
}

const byDeletion = (a, b) => b.trashed_at - a.trashed_at;

export function Page() {
  const { list, retentionMs, error } = useStore(trash);
  useNextFocus(() => document.querySelector("[data-test=trash-delete]"));
  const listed = useStore(chats, ({ all }) => all.length);
  useEffect(() => every(REFRESH_MS, refresh), []);
  // A chat that goes into the trash leaves the list, and comes back to it.
  useReading(refresh, [listed]);
  if (!list) return html`<${Reading} words=${t("memory.reading")} error=${error} />`;
  return html`
    <div class="row apart">
      <p class="note grow trash-about">${t("trash.about", { time: retentionMs })}</p>
      ${list.length > 0 && html`
        <${Button} kind="danger" onClick=${() => deleteAll(list)} data-test="trash-empty">${t("trash.empty")}<//>`}
    </div>
    ${list.length
      ? html`
        <ul class="card trash">
          ${list.map((chat) => html`<${Row} key=${chat.id} chat=${chat} retentionMs=${retentionMs} />`)}
        </ul>`
      : html`
        <div class="card empty" data-test="trash-none">
          <${Icon} name="trash" /><p>${t("trash.none")}</p>
        </div>`}`;
}

function Row({ chat, retentionMs }) {
  const title = chat.title ?? t("chat.untitled");
  const leftMs = Math.max(0, chat.trashed_at * 1000 + retentionMs - Date.now());
  return html`
    <li class="row" data-test="trashed">
      <div class="grow">
        <div class="clip-line" dir="auto">${title}</div>
        <p class="note">
          ${t("trash.messages", { n: chat.message_count })} · ${t("trash.deleted", { when: ago(chat.trashed_at) })} · ${
    t("trash.left", { time: leftMs })
  }
        </p>
      </div>
      <${Button} aria-label=${t("trash.restore.of", { title })} onClick=${() => restore(chat)} data-test="trash-restore">
        ${t("trash.restore")}
      <//>
      <${Button}
        aria-label=${t("trash.delete.of", { title })}
        onClick=${() => deleteNow([chat], title)}
        data-test="trash-delete"
      >
        ${t("trash.delete")}
      <//>
    </li>`;
}

async function restore(chat) {
  await restoreChats([chat], chat.id);
  await refresh();
}

const deleteAll = (list) => deleteNow(list, null);

/** `title`: of the only one. */
async function deleteNow(list, title) {
  const isAgreed = await ask({
    title: title === null ? t("trash.empty.title") : t("trash.delete.title", { title }),
    text: t("trash.delete.text", { n: list.length }),
    yes: t("trash.delete"),
    danger: true,
  });
  if (!isAgreed) return;
  const gone = await deleteForGood(list);
  if (gone.length) toast(t("trash.gone", { n: gone.length }));
  await refresh();
}
