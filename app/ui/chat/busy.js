// Whether an answer streams into a chat: what would ask for another one waits until it ends.

import { useStore } from "/lib.js";

/** A hook of that part of a message alone: the message is not drawn again when an answer begins or ends. */
export const useBusy = ({ store }) => useStore(store, ({ live }) => Boolean(live));
