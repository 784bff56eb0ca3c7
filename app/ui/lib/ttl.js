// TTL classes: how long saved KV stays on disk after its last use. Pure.

/** Shortest first. `permanent` KV stays until the disk quota needs its space. */
export const TTL_CLASSES = ["short", "long", "extended", "permanent"];

/** The class of that name; `kept` is the older name of `permanent`. */
export const ttlClass = (name) => (name === "kept" ? "permanent" : name);
