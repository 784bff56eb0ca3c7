// The daemon's settings, and how they are changed.

import { api, createStore, t } from "/lib.js";
import { ask, toast } from "/parts.js";
import { change } from "/pages/models/switching.js";

/** `list`: `GET /v1/settings`. `models`: `GET /v1/models/local`. `memory`: `GET /v1/memory`. */
export const settings = createStore({ list: null, models: null, memory: null, error: null });

export async function readSettings() {
  try {
    const paths = ["/v1/settings", "/v1/models/local", "/v1/memory"];
    const [list, models, memory] = await Promise.all(paths.map((path) => api.get(path)));
    settings.set({ list, models, memory, error: null });
  } catch (error) {
    settings.set({ error });
  }
}

/** The daemon's row of a setting. */
export const settingOf = (list, key) => list.data.find((setting) => setting.key === key);

/**
 * Changes settings of the daemon and waits until they are in force, also where it restarts for them.
 * Resolves to whether they are.
 */
export async function changeSettings(changes, force) {
  try {
    const body = { settings: changes, ...(force && { force }) };
    const { failure } = await change(() => api.patch("/v1/settings", body), () => areInForce(changes));
    if (failure) throw new Error(t("settings.failed", { message: failure }));
    toast(t("settings.saved"));
    return true;
  } catch (error) {
    if (error.code === "model_too_large" && (await askForce(error))) return changeSettings(changes, true);
    if (error.code !== "model_too_large") toast(error.message);
    return false;
  } finally {
    readSettings();
  }
}

async function areInForce(changes) {
  const { data } = await api.get("/v1/settings");
  return Object.entries(changes).every(([key, value]) => {
    const setting = data.find((one) => one.key === key);
    return String(setting.value) === String(value) || setting.written === String(value);
  });
}

const askForce = ({ message }) => ask({
  title: t("settings.large"),
  text: message,
  yes: t("models.run.anyway"),
  danger: true,
});
