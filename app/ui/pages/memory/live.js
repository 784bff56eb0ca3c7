// What the page shows, and how it stays true while somebody looks at it.
//
// - The map comes as events; the rest is read again when the map has changed and then stood still.
// - An idle daemon is asked nothing; a page that nobody sees hears nothing.

import { api, createStore, isCancelled } from "/lib.js";

const SOON_MS = 1200;
const LATER_MS = 5000; // What is written behind an answer is on disk by then.
const AGAIN_MS = 2000;

/** `slots` and `quarantine`: the daemon's lists; undefined until they are read, null where nothing is kept. */
export const memory = createStore({ now: null, map: null, slots: undefined, quarantine: undefined, turns: null, error: null });

let soon = 0;
let later = 0;

/** Follows the daemon until the returned function is called. */
export function follow() {
  let stopped = null;
  const begin = () => {
    if (stopped || document.hidden) return;
    stopped = new AbortController();
    listen(stopped.signal);
    refresh();
  };
  const end = () => {
    stopped?.abort();
    stopped = null;
    clearTimeout(soon);
    clearTimeout(later);
    soon = later = 0;
  };
  const look = () => (document.hidden ? end() : begin());
  document.addEventListener("visibilitychange", look);
  begin();
  return () => {
    document.removeEventListener("visibilitychange", look);
    end();
  };
}

async function listen(signal) {
  while (!signal.aborted) {
    try {
      let first = true;
      for await (const map of api.stream("GET", "/v1/memory/events", { signal })) {
        memory.set({ map, error: null });
        if (!first) schedule();
        first = false;
      }
    } catch (error) {
      if (signal.aborted || isCancelled(error)) return;
      memory.set({ error });
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    if (!signal.aborted && memory.get().error) refresh();
  }
}

function schedule() {
  soon ||= setTimeout(() => {
    soon = 0;
    refresh();
  }, SOON_MS);
  clearTimeout(later);
  later = setTimeout(refresh, LATER_MS);
}

const isBusy = () => (memory.get().map?.slots ?? []).some(({ state }) => state !== "free" && state !== "idle");

/** Reads everything but the map. While a turn runs the disk is left alone. */
export async function refresh() {
  const all = !isBusy() || memory.get().slots === undefined;
  try {
    const [now, slots, quarantine, turns] = await Promise.all([
      api.get("/v1/memory"),
      all && orNothing(api.get("/v1/slots")),
      all && orNothing(api.get("/v1/slots/quarantine")),
      all && orNothing(api.get("/v1/turns?limit=200")),
    ]);
    memory.set({ now, error: null, ...(all && { slots, quarantine, turns: turns?.data ?? [] }) });
  } catch (error) {
    memory.set({ error });
  }
}

/** Where nothing is kept there is nothing to list. */
const orNothing = (promise) => promise.catch((error) => {
  if (error.status === 404) return null;
  throw error;
});
