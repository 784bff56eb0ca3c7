// Gives the context another size: the daemon loads its model again. Chats and their KV stay.

import { api, t } from "/lib.js";
import { toast } from "/parts.js";
import { refreshStatus, status } from "./chats.js";

/** Resolves to whether the context has that size now. */
export async function setContext(tokens) {
  try {
    const { restarted } = await import("/pages/models/switching.js");
    const before = await api.get("/v1/status");
    const { restarts } = await api.patch("/v1/settings", { settings: { ctx: tokens } });
    if (!restarts) return true;
    status.set({ switchingTo: before.model });
    const failure = await restarted(before, () => status.get().now.context_tokens === tokens);
    toast(failure ?? t("room.larger.done", { n: tokens }));
    return !failure;
  } catch (error) {
    toast(error.message);
    return false;
  } finally {
    status.set({ switchingTo: null });
    refreshStatus();
  }
}
