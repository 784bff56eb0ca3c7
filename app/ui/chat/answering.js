// Which chats are being answered, by this page or by another client.

import { createStore, useStore } from "/lib.js";
import { status } from "./chats.js";

/** Answers that stream into this page: at once, where the status comes every few seconds. */
const here = createStore({ ids: new Set() });

export function answers(id, isAnswering) {
  const ids = new Set(here.get().ids);
  if (isAnswering) ids.add(id);
  else ids.delete(id);
  here.set({ ids });
}

/** The ids of all of them. A slot computes ahead without answering, so of slots only a decoding one counts. */
export function useAnswering() {
  const { ids } = useStore(here);
  const now = useStore(status, ({ now }) => now);
  return new Set([...ids, ...(now?.answering ?? []), ...decoding(now)]);
}

const decoding = (now) =>
  (now?.slots ?? []).filter(({ state }) => state === "decoding").map(({ conversation }) => conversation);
