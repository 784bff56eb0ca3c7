// Changes for which the daemon restarts: another model, context or setting. Requests fail meanwhile.

import { api, pause, t } from "/lib.js";
import { toast } from "/parts.js";
import { refreshStatus, status } from "/chat/chats.js";

const POLL_MS = 600;

/** Resolves to whether the model runs. `ctx`: its context. `force`: even when memory is short. */
export async function switchTo({ id, name }, { ctx, force } = {}) {
  const body = { model: id, ...(ctx && { ctx }), ...(force && { force }) };
  const isInForce = async () => {
    const list = await api.get("/v1/models/local");
    return list.current === id && (!ctx || list.data.some((one) => one.current && one.ctx === ctx));
  };
  try {
    const { answer, failure } = await change(() => api.post("/v1/models/switch", body), isInForce, name);
    if (!answer.restarts) return true;
    const runs = answer.for_this_run ? "models.runs.once" : "models.runs";
    toast(failure ? t("models.failed", { name, message: failure }) : t(runs, { name }));
    return !failure;
  } catch (error) {
    toast(error.message);
    return false;
  }
}

/**
 * Sends `request()` and, where the daemon restarts for it, waits until `isInForce()`. Resolves to the answer, and to
 * why it is not in force, or null. `name`: of the model that runs then, where it is another one.
 */
export async function change(request, isInForce, name) {
  try {
    const before = await api.get("/v1/status");
    const answer = await request();
    if (!answer.restarts) return { answer, failure: null };
    status.set({ switchingTo: name ?? before.model });
    return { answer, failure: await restarted(before, isInForce) };
  } finally {
    status.set({ switchingTo: null });
    refreshStatus();
  }
}

/**
 * Polls until the daemon has restarted, after the status `before`. Resolves to null where `isInForce()`
 * is true, or else to why not.
 */
async function restarted(before, isInForce) {
  for (;;) {
    await pause(POLL_MS);
    try {
      const now = await refreshStatus();
      if (!now || now.residency === "loading") continue;
      if (await isInForce()) return null;
      const failure = now.switch_error;
      if (failure && failure.at !== before.switch_error?.at) return failure.message;
      // The daemon has restarted with neither an error nor this: another client asked for something else.
      if (now.started_at !== before.started_at) return t("models.instead", { name: now.model });
    } catch {
      // The daemon is restarting.
    }
  }
}
