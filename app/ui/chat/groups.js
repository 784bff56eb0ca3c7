// The chats of the list by the day of their last use. Pure.

const DAY_MS = 86_400_000;

/** How many days before today each of them begins. */
const DAYS = [["today", 0], ["yesterday", 1], ["week", 7]];

/** In this order; a group without chats is left out. */
const GROUPS = ["pinned", ...DAYS.map(([name]) => name), "earlier"];

/** `{ name, items }` each, in the order of `GROUPS`; the chats of a group keep their order. Days begin at local
    midnight. */
export function grouped(chats, now = new Date()) {
  const begins = DAYS.map(([name, days]) => [name, midnight(now, days)]);
  const dayOf = (seconds) => begins.find(([, begin]) => seconds * 1000 >= begin)?.[0] ?? "earlier";
  const groups = Map.groupBy(chats, ({ pinned, updated_at }) => (pinned ? "pinned" : dayOf(updated_at)));
  return GROUPS.filter((name) => groups.has(name)).map((name) => ({ name, items: groups.get(name) }));
}

/** The begin of the day so many days ago. A day may have 23 or 25 hours. */
const midnight = (now, days) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - days).getTime();

/** Milliseconds until the next midnight, when the groups change; at least a second. */
export const untilMidnight = (now = new Date()) => Math.min(DAY_MS, Math.max(1000, midnight(now, -1) - now.getTime()));
