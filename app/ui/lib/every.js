/**
 * Calls `act` every so often while the page is visible, and not again before it has resolved: requests to a daemon that
 * loads its model wait, and a browser has six connections. Returns how to end.
 */
export function every(ms, act) {
  let isActing = false;
  const timer = setInterval(async () => {
    if (document.hidden || isActing) return;
    isActing = true;
    try {
      await act();
    } finally {
      isActing = false;
    }
  }, ms);
  return () => clearInterval(timer);
}
