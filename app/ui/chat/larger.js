// Gives the context another size: the daemon loads its model again. Chats and their KV stay.

import { api, importModule, t, useEffect, useState, useStore } from "/lib.js";
import { toast } from "/parts.js";
import { status } from "./chats.js";
import { loadModels } from "./models.js";

const MIN_LARGER = 2;

/** Contexts of twice this size, four times, and so on, up to what the model was trained with. */
function sizesAbove(tokens, trained) {
  const sizes = [];
  for (let size = tokens * MIN_LARGER; size <= trained && sizes.length < 4; size *= 2) sizes.push(size);
  if (trained > tokens && sizes.at(-1) !== trained && sizes.length < 4) sizes.push(trained);
  return sizes;
}

/** A hook: the size of the context, what it may become, and what fixes it; null until the daemon has answered. */
export function useContextSizes() {
  const [known, setKnown] = useState(null);
  const tokens = useStore(status, ({ now }) => now?.context_tokens);
  useEffect(() => {
    Promise.all([loadModels(), api.get("/v1/settings")]).then(
      ([list, settings]) => setKnown(sizesOf(list, settings)),
      // Without them the other ways remain.
      () => {},
    );
  }, [tokens]);
  return known;
}

function sizesOf(list, settings) {
  const setting = settings.data.find(({ key }) => key === "ctx");
  if (!setting) return null;
  const model = list.data.find(({ current }) => current);
  const trained = model?.trained_context || Number.MAX_SAFE_INTEGER;
  const tokens = model?.ctx ?? Number(setting.value);
  const perToken = model?.estimate?.kv_bytes_per_token ?? 0;
  return { fixed: setting.fixed, trained, tokens, sizes: sizesAbove(tokens, trained), perToken };
}

/** Resolves to whether the context has that size now. */
export async function setContext(tokens) {
  try {
    const { change } = await importModule("/pages/models/switching.js");
    const { answer, failure } = await change(
      () => api.patch("/v1/settings", { settings: { ctx: tokens } }),
      () => status.get().now.context_tokens === tokens,
    );
    if (answer.restarts) toast(failure ?? t("room.larger.done", { n: tokens }));
    return !failure;
  } catch (error) {
    toast(error.message);
    return false;
  }
}
