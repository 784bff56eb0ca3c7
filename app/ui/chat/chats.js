// The list of chats: what there is, where its KV is, and what is done with a chat as a whole.

import { api, createStore, t } from "/lib.js";
import { say, told } from "/parts.js";

const STATUS_EVERY_MS = 4000;
const WARM_AGAIN_MS = 15_000;

/** `all`: in the order of the list. `found`: by text, of the last search. */
export const chats = createStore({ all: [], loaded: false, query: "", found: null });
/** `now`: what the daemon says of itself; null until it did. `to`: the model that it starts over with, by name. */
export const status = createStore({ now: null, error: null, to: null });

const order = (a, b) => Number(b.pinned ?? false) - Number(a.pinned ?? false) || b.updated_at - a.updated_at;

export const newId = () => `chat-${[...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, "0")).join("")}`;

export const chatOf = (id) => chats.get().all.find((chat) => chat.id === id);

export async function loadChats() {
  const { data } = await api.get("/v1/conversations");
  chats.set({ all: data.sort(order), loaded: true });
}

/** Changes one entry of the list, or adds it: in front of those of the same second. */
export function put(chat) {
  chats.set(({ all }) => {
    const before = all.find(({ id }) => id === chat.id);
    return { all: [{ ...before, ...chat }, ...all.filter(({ id }) => id !== chat.id)].sort(order) };
  });
}

/** What was near before: not every conversation has its texts kept. */
const met = new Set();

/** Reads the status, and from it where chats are: no chat is looked for on the disk. Promises it, if there is one. */
export async function look() {
  try {
    const now = await api.get("/v1/status");
    const wasAway = status.get().error;
    status.set({ now, error: null });
    const near = new Map(now.parked.map(({ conversation }) => [conversation, "memory"]));
    for (const { conversation } of now.slots) if (conversation) near.set(conversation, "slot");
    // Another daemon may be there now, or somebody else has begun a chat.
    const isNew = (id) => !met.has(id) && met.add(id) && !chatOf(id);
    if ([...near.keys()].filter(isNew).length || wasAway) await loadChats();
    const moved = (chat) => {
      const place = near.get(chat.id) ?? (chat.place === "slot" || chat.place === "memory" ? "disk" : chat.place);
      return place === chat.place ? chat : { ...chat, place };
    };
    const { all } = chats.get();
    const next = all.map(moved);
    if (next.some((chat, index) => chat !== all[index])) chats.set({ all: next });
    return now;
  } catch (error) {
    status.set({ error });
  }
}

/** Keeps true where chats are while somebody looks; who comes back sees what others did. */
export function keepLooking() {
  const whenSeen = (act) => () => document.hidden || act();
  setInterval(whenSeen(look), STATUS_EVERY_MS);
  document.addEventListener("visibilitychange", whenSeen(() => loadChats().then(look, look)));
  return look();
}

const warmed = new Map();

/** Begins to bring a chat's KV back, since somebody seems to want it. */
export function warm(id, profile) {
  const chat = chatOf(id);
  const now = performance.now();
  if (!chat || chat.place === "slot" || now - (warmed.get(id) ?? -Infinity) < WARM_AGAIN_MS) return;
  warmed.set(id, now);
  const body = { conversation: id, wait: false, ...(profile && { hob: { profile } }) };
  api.post("/v1/prewarm", body).then(() => setTimeout(look, 250), () => warmed.delete(id));
}

let searching = null;

/** Searches titles at once and texts a moment later. */
export function search(query) {
  chats.set({ query, found: null });
  searching?.abort();
  if (query.trim().length < 2) return;
  const { signal } = (searching = new AbortController());
  setTimeout(async () => {
    if (signal.aborted) return;
    const path = `/v1/conversations?q=${encodeURIComponent(query.trim())}`;
    const answer = await told(api.get(path, { signal }));
    if (!signal.aborted) chats.set({ found: answer?.data ?? [] });
  }, 120);
}

/** What the list shows: chats whose title or text has what is searched. */
export function shown({ all, query, found }) {
  const words = query.trim().toLowerCase();
  if (!words) return all;
  const byTitle = all.filter(({ title }) => title?.toLowerCase().includes(words));
  const ids = new Set(byTitle.map(({ id }) => id));
  const placed = (hit) => ({ ...hit, place: chatOf(hit.id)?.place ?? hit.place });
  return [...byTitle, ...(found ?? []).filter(({ id }) => !ids.has(id)).map(placed)];
}

/** Changes fields of a chat; what the daemon refuses is told and undone. */
async function change(id, fields) {
  const before = chatOf(id);
  put({ id, ...fields });
  const after = (await told(api.patch(path(id), fields))) ?? before;
  if (after) put(after);
}

export const rename = (id, title) => change(id, { title });
export const pin = (id, pinned) => change(id, { pinned });

/** Puts a chat into the trash, from where it can be taken back for a while. */
export async function discard(id) {
  const chat = chatOf(id);
  if (!(await told(api.patch(path(id), { trashed: true })))) return;
  chats.set(({ all }) => ({ all: all.filter((other) => other.id !== id) }));
  const act = async () => {
    const back = await told(api.patch(path(id), { trashed: false }));
    if (back) put(back);
  };
  say(t("chat.deleted", { title: chat.title ?? t("chat.untitled") }), { label: t("undo"), act });
}

export const path = (id, more = "") => `/v1/conversations/${encodeURIComponent(id)}${more}`;
