// Enter while an answer or a file is still under way: the message waits, and is sent when that is over, also where
// another chat is shown by then. Stopping the answer, a failure and an empty field end the wait.

/** Of a conversation, whose store has `waits` meanwhile. `inTheWay()`: what is, or null. Returns how to begin it. */
export function createWaiting({ store, attachments, inTheWay, send }) {
  const isDue = () => store.get().waits && !inTheWay();
  const sendIfDue = () => {
    if (!isDue()) return;
    store.set({ waits: false });
    send();
  };
  const look = () => {
    const { waits, live, error, draft } = store.get();
    if (waits && (live?.isStopping || error || !draft.trim())) store.set({ waits: false });
    // The request for the answer before has not returned yet.
    else if (isDue()) setTimeout(sendIfDue);
  };
  store.subscribe(look);
  attachments.store.subscribe(look);
  return () => store.set({ waits: true });
}
