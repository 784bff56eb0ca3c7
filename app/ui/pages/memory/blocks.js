// The map of KV cells as a table: runs of equal blocks.

import { count, t } from "/lib.js";
import { nameOf, partOf } from "./words.js";

export const BLOCKS = [
  ["evicted.who", ({ name }) => name, "clip"],
  ["map.table.blocks", ({ blocks }) => count(blocks), "figure"],
  ["evicted.tokens", ({ start, end }) => `${count(start)}–${count(end)}`, "figure"],
  ["map.table.part", ({ layer, key }) => partOf(layer, key)],
  ["map.table.origin", ({ origin }) => t(`origin.${origin}`)],
  ["map.table.sharers", ({ sharers }) => count(sharers), "figure"],
];

const COMPARED = ["layer", "key", "origin", "sharers"];

/** A slot's blocks, adjacent ones that are equal but for their place joined to one row. */
export function runs(slot) {
  const rows = [];
  for (const { start, end, layer, key, origin, sharers } of slot.blocks) {
    const block = { name: nameOf(slot), start, end, layer, key, origin, sharers, blocks: 1 };
    const last = rows.at(-1);
    if (last && COMPARED.every((field) => last[field] === block[field])) {
      last.end = end;
      last.blocks += 1;
    } else {
      rows.push(block);
    }
  }
  return rows;
}
