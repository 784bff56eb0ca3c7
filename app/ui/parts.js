// What several pages show, in one import.

export * from "./parts/button.js";
export * from "./parts/clipboard.js";
export * from "./parts/dialog.js";
export * from "./parts/help.js";
export * from "./parts/icon.js";
export * from "./parts/links.js";
export * from "./parts/menu.js";
export * from "./parts/select.js";
export * from "./parts/show-side.js";
export * from "./parts/state.js";
export * from "./parts/table.js";
export * from "./parts/toast.js";
export * from "./parts/virtual-list.js";
