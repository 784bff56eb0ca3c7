// The list of chats, the tier of each one's KV, and the daemon's status.

import { api, createStore, every } from "/lib.js";
import { orToast } from "/parts.js";

const STATUS_EVERY_MS = 4000;
const STATUS_AFTER_PREWARM_MS = 250;
const PREWARM_AGAIN_AFTER_MS = 15_000;
const SEARCH_AFTER_MS = 120;
const MIN_SEARCH_LETTERS = 2;

/** `found`: the chats whose text matches the words `foundFor`, of the search or of the one before it. */
export const chats = createStore({ all: [], loaded: false, query: "", found: null, foundFor: "" });

/** `now`: the last `/v1/status`. `restarts`: how often another daemon process, or another model, answered than
    before. `switchingTo`: the model that the daemon restarts with. */
export const status = createStore({ now: null, error: null, restarts: 0, switchingTo: null });

function order(a, b) {
  const byPin = Number(b.pinned ?? false) - Number(a.pinned ?? false);
  return byPin || b.updated_at - a.updated_at;
}

const PRIVATE = "private-";

/** Ids of private chats that were in the list. */
const privateIds = new Set();

/** The list says it of its chats, those of other clients included. One that is not in the list was private there, or is
    by its id, so that it stays private when the page or the daemon restarts. */
export function isPrivate(id) {
  const chat = chatOf(id);
  if (chat?.private) privateIds.add(id);
  return chat ? Boolean(chat.private) : privateIds.has(id) || id.startsWith(PRIVATE);
}

export function newId(isPrivate) {
  const bytes = [...crypto.getRandomValues(new Uint8Array(8))];
  return `${isPrivate ? PRIVATE : "chat-"}${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export const chatOf = (id) => chats.get().all.find((chat) => chat.id === id);

export const conversationPath = (id, suffix = "") =>
  `/v1/conversations/${encodeURIComponent(id)}${suffix}`;

/** How many lists were asked for, and which of them is shown. */
let asked = 0;
let shown = 0;

/** How many lists were asked for when the chat with an id was deleted here: these may still have it. */
const deletedAt = new Map();

export async function loadChats() {
  const mine = ++asked;
  const { data } = await api.get("/v1/conversations");
  // A later one came first.
  if (mine < shown) return;
  shown = mine;
  const isThere = ({ id }) => !(deletedAt.get(id) >= mine);
  chats.set({ all: data.filter(isThere).sort(order), loaded: true });
}

/** The daemon has deleted them. */
export function removeChats(list) {
  const ids = new Set(list.map(({ id }) => id));
  ids.forEach((id) => deletedAt.set(id, asked));
  chats.set(({ all }) => ({ all: all.filter(({ id }) => !ids.has(id)) }));
}

/** Updates a chat, or adds it before those changed in the same second. */
export function upsertChat(chat) {
  chats.set(({ all }) => {
    const before = all.find(({ id }) => id === chat.id);
    const others = all.filter(({ id }) => id !== chat.id);
    return { all: [{ ...before, ...chat }, ...others].sort(order) };
  });
}

/** Ids that the status has named so far; not all of them are in the list. */
const seenIds = new Set();

/** How many statuses were asked for, and which of them is shown. */
let statusAsked = 0;
let statusShown = 0;

/** Reads the status and updates each chat's place from it. */
export async function refreshStatus() {
  const mine = ++statusAsked;
  try {
    const now = await api.get("/v1/status");
    // A later one came first.
    if (mine < statusShown) return now;
    statusShown = mine;
    const { now: before, error: wasAway, restarts } = status.get();
    // It may have started again between two calls, or serve another model.
    const isOther = Boolean(before) && daemonOf(before) !== daemonOf(now);
    status.set({ now, error: null, restarts: restarts + Number(isOther) });
    const places = placesIn(now);
    const unseen = [...places.keys()].filter((id) => !seenIds.has(id));
    unseen.forEach((id) => seenIds.add(id));
    const isGone = [...lastPlaces.keys()].some((id) => !places.has(id));
    lastPlaces = places;
    // Another client may have started or changed a chat or had an answer, or KV has gone that the status does not name
    // any more.
    const isAnswered = Boolean(before) && answersOf(before) !== answersOf(now);
    const isChanged = Boolean(before) && before.changes !== now.changes;
    if (wasAway || isOther || isAnswered || isChanged || isGone || unseen.some((id) => !chatOf(id))) await loadChats();
    const { all } = chats.get();
    const updated = all.map((chat) => withPlace(chat, places));
    if (updated.some((chat, index) => chat !== all[index])) chats.set({ all: updated });
    return now;
  } catch (error) {
    if (mine >= statusShown) status.set({ error });
    return undefined;
  }
}

/** Of the last status. */
let lastPlaces = new Map();

const daemonOf = ({ pid, started_at, fingerprint }) => [pid, started_at, fingerprint].join();

/** How many have ended: one may have begun and ended between two calls. */
const answersOf = ({ counters }) => counters?.turns;

/** Of a parked chat, by the tier that a restore reads. */
const PLACES = { warm: "memory", cold: "disk", none: "none" };

/** What the status says of each chat that it names: its place, and whether it is ready. */
function placesIn({ parked, slots }) {
  const of = (place, { ready, read_ms }) => ({ place, ready, read_ms });
  const places = new Map(parked.map((row) => [row.conversation, of(PLACES[row.tier], row)]));
  for (const row of slots) {
    if (row.conversation && row.tokens > 0) places.set(row.conversation, of("slot", row));
  }
  return places;
}

function withPlace(chat, places) {
  const now = places.get(chat.id);
  const isSame = !now || Object.entries(now).every(([name, value]) => chat[name] === value);
  return isSame ? chat : { ...chat, ...now };
}

/** Polls while the page is visible; reloads the chats when it becomes visible again. */
export function pollStatus() {
  every(STATUS_EVERY_MS, refreshStatus);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) loadChats().then(refreshStatus, refreshStatus);
  });
  return refreshStatus();
}

const restoredAt = new Map();
const prewarmedAt = new Map();

/** Restores what is saved of a chat, because the pointer rests on it. Computes nothing. `hob`: of its next request. */
export function restore(id, hob) {
  if (chatOf(id)?.place !== "none") prepare(id, hob, false, restoredAt);
}

/** Restores a chat's KV and computes the rest, because the user is about to write in it. */
export const prewarm = (id, hob) => prepare(id, hob, true, prewarmedAt);

function prepare(id, hob, compute, preparedAt) {
  const chat = chatOf(id);
  const now = performance.now();
  const isRecent = now - (preparedAt.get(id) ?? -Infinity) < PREWARM_AGAIN_AFTER_MS;
  if (!chat || chat.place === "slot" || isRecent) return;
  preparedAt.set(id, now);
  const body = { conversation: id, wait: false, compute, hob };
  api.post("/v1/prewarm", body).then(
    () => setTimeout(refreshStatus, STATUS_AFTER_PREWARM_MS),
    // 501: the engine is at another address, and each letter would ask again.
    ({ status }) => status === 501 || preparedAt.delete(id),
  );
}

let searching = null;

/** Searches the titles at once; the daemon searches the texts after a short delay. What it has found before stays
    until then. */
export function search(query) {
  const words = query.trim();
  const isForTexts = words.length >= MIN_SEARCH_LETTERS;
  chats.set({ query, ...(!isForTexts && { found: null, foundFor: "" }) });
  searching?.abort();
  if (!isForTexts) return;
  searching = new AbortController();
  const { signal } = searching;
  setTimeout(async () => {
    if (signal.aborted) return;
    const answer = await orToast(api.get(`/v1/conversations?q=${encodeURIComponent(words)}`, { signal }));
    if (!signal.aborted) chats.set({ found: answer?.data ?? [], foundFor: words });
  }, SEARCH_AFTER_MS);
}

/** Whether the daemon still searches the texts. */
export const isSearching = ({ query, foundFor }) =>
  query.trim().length >= MIN_SEARCH_LETTERS && foundFor !== query.trim();

/** The chats that match the search: by title, then by text. */
export function visibleChats({ all, query, found }) {
  const words = query.trim().toLowerCase();
  if (!words) return all;
  const byTitle = all.filter(({ title }) => title?.toLowerCase().includes(words));
  if (!found?.length) return byTitle;
  const ids = new Set(byTitle.map(({ id }) => id));
  // As they are now: one may have been deleted or renamed since it was found.
  const known = new Map(all.map((chat) => [chat.id, chat]));
  const byText = found.filter(({ id }) => !ids.has(id) && known.has(id));
  return [...byTitle, ...byText.map((hit) => ({ ...hit, ...known.get(hit.id) }))];
}

/** Changes a chat at once, and undoes that when the daemon refuses. */
async function change(id, fields) {
  const before = chatOf(id);
  upsertChat({ id, ...fields });
  const after = (await orToast(api.patch(conversationPath(id), fields))) ?? before;
  if (after) upsertChat(after);
}

export const rename = (id, title) => change(id, { title });
export const pin = (id, pinned) => change(id, { pinned });
