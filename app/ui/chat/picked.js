// The chats that are picked in the list, to delete or export them together.

import { createStore } from "/lib.js";

/** `anchor`: where a range begins. */
export const picked = createStore({ ids: new Set(), anchor: null });

export const unpick = () => picked.get().ids.size && picked.set({ ids: new Set(), anchor: null });

export function toggle(id) {
  const ids = new Set(picked.get().ids);
  if (!ids.delete(id)) ids.add(id);
  picked.set({ ids, anchor: ids.size ? id : null });
}

/** Picks all between the anchor, or `from`, and `to`. `list`: the chats as they are shown. */
export function pickRange(list, from, to) {
  const anchor = picked.get().anchor ?? from ?? to;
  picked.set({ ids: new Set(between(list, anchor, to)), anchor });
}

export const pickAll = (list) => picked.set({ ids: new Set(list.map(({ id }) => id)), anchor: list[0]?.id ?? null });

/** The ids from one chat to another, in either direction; `to` alone where `from` is not shown. Pure. */
export function between(list, from, to) {
  const [first, last] = [from, to].map((id) => list.findIndex((chat) => chat.id === id));
  if (last === -1) return [];
  const begin = first === -1 ? last : Math.min(first, last);
  return list.slice(begin, Math.max(first, last) + 1).map(({ id }) => id);
}
