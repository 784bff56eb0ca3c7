// The models of this machine, as the head of a chat and its empty page need them.

import { api, createStore } from "/lib.js";

/** `list`: the daemon's last answer; null before. */
export const models = createStore({ list: null });

export async function loadModels() {
  const list = await api.get("/v1/models/local");
  models.set({ list });
  return list;
}
