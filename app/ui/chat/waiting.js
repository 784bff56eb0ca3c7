// Enter while an answer or a file is still under way: the message waits, and is sent when that is over. Stopping
// the answer, a failure and an empty field end the wait.

import { useEffect, useState } from "/lib.js";

/** `blocked`: what is in the way, or null. Returns what the message waits for, and `wait()`. */
export function useWaiting({ blocked, isStopping, error, draft, send }) {
  const [isWaiting, setWaiting] = useState(false);
  useEffect(() => {
    if (!isWaiting) return;
    if (isStopping || error || !draft.trim()) setWaiting(false);
    else if (!blocked) {
      setWaiting(false);
      send();
    }
  }, [isWaiting, blocked, isStopping, error, draft]);
  return { waitsFor: isWaiting ? blocked : null, wait: () => setWaiting(true) };
}
