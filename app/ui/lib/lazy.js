// Modules that are loaded when they are first needed.

import { useEffect, useState } from "./dom.js";

const LATER_MS = 1500;

/** Calls `act` when the browser has nothing else to do. WebKit cannot tell: it calls after a while. */
export const whenIdle = window.requestIdleCallback ?? ((act) => setTimeout(act, LATER_MS));

/** `load()` starts loading; `use()` is a hook that returns the module once it is there. A failure is tried again. */
export function lazy(importModule) {
  let module = null;
  let loading = null;
  const load = () => {
    loading ??= importModule().then(
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
    const [, setLoaded] = useState(false);
    const shown = module;
    useEffect(() => {
      // Also where it was loaded between this drawing and its effect.
      if (isNeeded && !shown) load().then(() => setLoaded(Boolean(module)));
    }, [isNeeded]);
    return module;
  };
  return { load, use };
}
