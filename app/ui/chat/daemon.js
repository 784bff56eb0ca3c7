// Reads again when the daemon answers again.

import { useEffect, useStore } from "/lib.js";
import { status } from "./chats.js";

/** A hook: calls `read` now, each time that the daemon answers again after it was away or has started again, and when
    one of `others` has changed. */
export function useReading(read, others = []) {
  const isAway = useStore(status, ({ error }) => Boolean(error));
  const restarts = useStore(status, ({ restarts }) => restarts);
  useEffect(() => {
    if (!isAway) read();
  }, [isAway, restarts, ...others]);
}
