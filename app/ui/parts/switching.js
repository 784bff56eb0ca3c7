// Whether the daemon is starting over with another model: then nobody answers for a while.

import { createStore } from "/lib.js";

/** `to`: the name of the model that is on its way; null when none is. */
export const switching = createStore({ to: null });
