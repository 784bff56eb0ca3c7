// Switches the daemon to another model. It restarts meanwhile, so failed requests are expected.

import { api, t } from "/lib.js";
import { toast } from "/parts.js";
import { refreshStatus, status } from "/chat/chats.js";

const POLL_MS = 600;

/** Resolves to whether the model runs. `force`: even when memory is short. */
export async function switchTo({ id, name }, force) {
  try {
    const before = await api.get("/v1/status");
    const body = { model: id, ...(force && { force }) };
    const { restarts } = await api.post("/v1/models/switch", body);
    if (!restarts) return true;
    status.set({ switchingTo: name });
    const failure = await outcome(id, before);
    toast(failure ? t("models.failed", { name, message: failure }) : t("models.runs", { name }));
    return !failure;
  } catch (error) {
    toast(error.message);
    return false;
  } finally {
    status.set({ switchingTo: null });
    refreshStatus();
  }
}

/** Polls until a model is loaded; resolves to why it is another one, or null. */
async function outcome(id, before) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    try {
      const now = await refreshStatus();
      if (!now || now.residency === "loading") continue;
      if ((await api.get("/v1/models/local")).current === id) return null;
      const failure = now.switch_error;
      if (failure && failure.at !== before.switch_error?.at) return failure.message;
      // The daemon has restarted with neither an error nor this model: another client switched it.
      if (now.started_at !== before.started_at) return t("models.instead", { name: now.model });
    } catch {
      // The daemon is restarting.
    }
  }
}
