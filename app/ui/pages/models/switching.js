// From the wish for another model until one runs again. The daemon starts over meanwhile: nobody answers
// for a while, and that is no failure.

import { api, t } from "/lib.js";
import { say } from "/parts.js";
import { look, status } from "/chat/chats.js";

const LOOK_EVERY_MS = 600;

/** Has the daemon start over with a model; promises whether it runs. `force`: also when memory is short. */
export async function switchTo({ id, name }, force) {
  try {
    const before = await api.get("/v1/status");
    const { restarts } = await api.post("/v1/models/switch", { model: id, ...(force && { force }) });
    if (!restarts) return true;
    status.set({ to: name });
    const failure = await until(id, before);
    say(failure ? t("models.failed", { name, message: failure }) : t("models.runs", { name }));
    return !failure;
  } catch (error) {
    say(error.message);
    return false;
  } finally {
    status.set({ to: null });
    look();
  }
}

/** Waits until a model runs; promises why it is another one, or nothing. */
async function until(id, before) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    try {
      const now = await look();
      if (!now || now.residency === "loading") continue;
      if ((await api.get("/v1/models/local")).current === id) return null;
      if (now.switch_error && now.switch_error.at !== before.switch_error?.at) return now.switch_error.message;
      if (now.started_at !== before.started_at) return t("models.instead", { name: now.model }); // by somebody else
    } catch {
      // It starts over.
    }
  }
}
