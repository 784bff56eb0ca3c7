// What has no looks, in one import.

export * from "./lib/dom.js";
export * from "./lib/format.js";
export * from "./lib/keys.js";
export * from "./lib/markdown.js";
export * from "./lib/microphone.js";
export * from "./lib/preferences.js";
export * from "./lib/router.js";
export * from "./lib/store.js";
export * from "./lib/strings.js";
export * from "./lib/transport.js";
