// Modules that are loaded when they are first needed.

import { useEffect, useState } from "./dom.js";

const LATER_MS = 1500;

/** How often each module could not be loaded, by its path. */
const failures = new Map();

/** The module at an absolute path. Some versions of Chromium remember that one could not be loaded: each further try
    has another address. */
export async function importModule(path) {
  const tries = failures.get(path) ?? 0;
  try {
    return await import(tries ? `${path}?try=${tries}` : path);
  } catch (error) {
    failures.set(path, tries + 1);
    throw error;
  }
}

/** Calls `act` when the browser has nothing else to do. WebKit cannot tell: it calls after a while. */
export const whenIdle = window.requestIdleCallback ?? ((act) => setTimeout(act, LATER_MS));

/** `load()` starts loading; `use()` is a hook that returns the module once it is there. While it is needed, a failure
    is tried again. */
export function lazy(importing) {
  let module = null;
  let loading = null;
  const load = () => {
    loading ??= importing().then(
      (loaded) => {
        module = loaded;
      },
      () => {
        loading = null;
      },
    );
    return loading;
  };
  const use = (isNeeded = true) => {
    const [tries, setTries] = useState(0);
    const shown = module;
    useEffect(() => {
      // Also where it was loaded between this drawing and its effect.
      if (!isNeeded || shown) return undefined;
      let isLeft = false;
      let timer;
      load().then(() => {
        const next = () => setTries(tries + 1);
        if (module) next();
        else if (!isLeft) timer = setTimeout(next, LATER_MS);
      });
      return () => {
        isLeft = true;
        clearTimeout(timer);
      };
    }, [isNeeded, tries]);
    return module;
  };
  return { load, use };
}
