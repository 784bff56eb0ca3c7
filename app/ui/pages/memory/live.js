// The data of the memory page, updated while the page is visible.
//
// - The map arrives as server-sent events. The rest is read again after the map has changed.
// - While nothing changes the daemon gets no requests; a hidden page closes the stream.

import { api, createStore, isCancelled, pause } from "/lib.js";

const SOON_MS = 1200;
/** By then the daemon has written what an answer computed. */
const LATER_MS = 5000;
const RETRY_MS = 2000;

/** `slots` and `quarantine`: undefined until they are read, null without a slots directory. */
export const memory = createStore({
  now: null,
  map: null,
  slots: undefined,
  quarantine: undefined,
  turns: null,
  error: null,
});

let soon = 0;
let later = 0;

export function follow() {
  let abort = null;
  const start = () => {
    if (abort || document.hidden) return;
    abort = new AbortController();
    streamMap(abort.signal);
    look();
  };
  const stop = () => {
    abort?.abort();
    abort = null;
    clearTimeout(soon);
    clearTimeout(later);
    soon = 0;
    later = 0;
  };
  const visibilityChanged = () => (document.hidden ? stop() : start());
  document.addEventListener("visibilitychange", visibilityChanged);
  start();
  return () => {
    document.removeEventListener("visibilitychange", visibilityChanged);
    stop();
  };
}

async function streamMap(signal) {
  while (!signal.aborted) {
    try {
      let isFirst = true;
      for await (const map of api.stream("GET", "/v1/memory/events", { signal })) {
        memory.set({ map, error: null });
        if (!isFirst) scheduleRefresh();
        isFirst = false;
      }
    } catch (error) {
      if (signal.aborted || isCancelled(error)) return;
      memory.set({ error });
    }
    await pause(RETRY_MS);
    if (!signal.aborted && memory.get().error) look();
  }
}

/** Looks soon, and once more when the last change is on disk. */
function scheduleRefresh() {
  soon ||= setTimeout(() => {
    soon = 0;
    look();
  }, SOON_MS);
  clearTimeout(later);
  later = setTimeout(look, LATER_MS);
}

const isBusy = () => {
  const slots = memory.get().map?.slots ?? [];
  return slots.some(({ state }) => state !== "free" && state !== "idle");
};

/** Reads everything but the map, while a turn runs too: the user has changed something. Resolves to what
    `/v1/slots` answers; null without a slots directory, undefined after a failure. */
export const refresh = () => read(true);

/** While a turn runs, what needs the disk is skipped. */
const look = () => read(!isBusy() || memory.get().slots === undefined);

/** How often the lists were asked for. */
let asked = 0;

/** `all`: the lists, too, which need the disk. */
async function read(all) {
  asked += Number(all);
  const mine = asked;
  try {
    const [now, slots, quarantine, turns] = await Promise.all([
      api.get("/v1/memory"),
      all && nullIfMissing(api.get("/v1/slots")),
      all && nullIfMissing(api.get("/v1/slots/quarantine")),
      all && nullIfMissing(api.get("/v1/turns?limit=200")),
    ]);
    // Where later ones are on their way, these are old.
    const lists = all && mine === asked && { slots, quarantine, turns: turns?.data ?? [] };
    memory.set({ now, error: null, ...lists });
    return slots;
  } catch (error) {
    memory.set({ error });
  }
  return undefined;
}

async function nullIfMissing(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}
