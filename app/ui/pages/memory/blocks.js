// The map as a table: runs of blocks that are alike.

import { count, t } from "/lib.js";
import { nameOf, partOf } from "./words.js";

export const BLOCKS = [
  ["left.who", ({ name }) => name, "clip"],
  ["map.table.blocks", ({ blocks }) => count(blocks), "figure"],
  ["left.tokens", ({ start, end }) => `${count(start)}–${count(end)}`, "figure"],
  ["map.table.part", ({ layer, key }) => partOf(layer, key)],
  ["map.table.origin", ({ origin }) => t(`origin.${origin}`)],
  ["map.table.sharers", ({ sharers }) => count(sharers), "figure"],
];

/** A slot's neighbours that differ in nothing but their place, as one. */
export function runs(slot) {
  const all = [];
  for (const { start, end, layer, key, origin, sharers } of slot.blocks) {
    const last = all.at(-1);
    if (last && last.layer === layer && last.key === key && last.origin === origin && last.sharers === sharers) {
      last.end = end;
      last.blocks += 1;
    } else all.push({ name: nameOf(slot), start, end, layer, key, origin, sharers, blocks: 1 });
  }
  return all;
}
