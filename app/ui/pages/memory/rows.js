// The rows of the table of saved conversations, and how its columns sort them. Pure.

import { ttlClass, TTL_CLASSES } from "/lib/ttl.js";

/** The tier of each of the daemon's states, nearest to the engine first. */
export const TIERS = { open: "hot", hot: "hot", warm: "warm", cold: "cold", expired: "cold" };

const NEARNESS = Object.keys(TIERS);

/** `figure`: sorted from the largest. `wide`: hidden on a narrow window. `by`: the sort key. `detail`: of the engine. */
export const COLUMNS = [
  { name: "name", by: (row) => row.name.toLowerCase() },
  { name: "state", wide: true, by: (row) => NEARNESS.indexOf(row.state) },
  { name: "own", figure: true, by: (row) => row.own_bytes },
  { name: "shared", detail: true, figure: true, wide: true, by: (row) => row.shared_bytes },
  { name: "tokens", detail: true, figure: true, wide: true, by: (row) => row.tokens },
  { name: "used", by: (row) => row.age_secs },
  { name: "age", detail: true, wide: true, by: (row) => -row.created_at },
  { name: "expires", by: (row) => row.expiresIn ?? Infinity },
  { name: "class", by: (row) => TTL_CLASSES.indexOf(row.class) },
];

export const rowOf = (saved, name, lifetimes) => {
  const row = { ...saved, name, class: ttlClass(saved.class) };
  return { ...row, expiresIn: expiresIn(row, lifetimes) };
};

/** Seconds until the sweep may delete it; null where only the quota does. `lifetimes`: seconds by class. */
function expiresIn(row, lifetimes) {
  const lifetime = lifetimes?.[row.class];
  return lifetime == null ? null : Math.max(0, lifetime - row.age_secs);
}

/** The rows by one column; equal ones by last use, latest first. */
export function sorted(rows, { name, down }) {
  const { by } = COLUMNS.find((column) => column.name === name);
  const direction = down ? -1 : 1;
  return [...rows].sort((a, b) => direction * ((by(a) > by(b)) - (by(a) < by(b))) || a.age_secs - b.age_secs);
}
