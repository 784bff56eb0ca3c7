// Files that are dropped on the page. The browser never opens one: the page that is shown takes them, or
// says where to drop them.

import { createStore, t } from "/lib.js";
import { toast } from "/parts.js";

/** `isOver`: files hover over the page, and it takes them. */
export const drops = createStore({ isOver: false });

let takers = [];

/** `take` gets an array of files. Returns how to end. Layout effects call it: a page that is seen takes files. */
export function takeDrops(take) {
  takers = [...takers, take];
  return () => {
    takers = takers.filter((other) => other !== take);
    drops.set({ isOver: false });
  };
}

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

window.addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  const isTaken = takers.length > 0;
  event.dataTransfer.dropEffect = isTaken ? "copy" : "none";
  if (isTaken !== drops.get().isOver) drops.set({ isOver: isTaken });
});
window.addEventListener("dragleave", (event) => {
  // It left the window.
  if (!event.relatedTarget) drops.set({ isOver: false });
});
window.addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  drops.set({ isOver: false });
  const take = takers.at(-1);
  if (take) take([...event.dataTransfer.files]);
  else toast(t("drop.nowhere"));
});
