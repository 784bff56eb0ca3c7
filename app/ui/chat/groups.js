// The chats of the list by the day of their last use. Pure.

const DAY_MS = 86_400_000;
const WEEK_DAYS = 7;

/** In this order; a group without chats is left out. */
const GROUPS = ["pinned", "today", "yesterday", "week", "earlier"];

/** `{ name, items }` each, in the order of `GROUPS`; the chats of a group keep their order. Days begin at local
    midnight. */
export function grouped(chats, now = new Date()) {
  const groups = new Map(GROUPS.map((name) => [name, []]));
  const begins = {
    today: midnight(now, 0),
    yesterday: midnight(now, 1),
    week: midnight(now, WEEK_DAYS),
  };
  for (const chat of chats) groups.get(groupOf(chat, begins)).push(chat);
  return [...groups].filter(([, items]) => items.length).map(([name, items]) => ({ name, items }));
}

/** The begin of the day so many days ago. A day may have 23 or 25 hours. */
const midnight = (now, days) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - days).getTime();

function groupOf({ pinned, updated_at }, { today, yesterday, week }) {
  if (pinned) return "pinned";
  const at = updated_at * 1000;
  if (at >= today) return "today";
  if (at >= yesterday) return "yesterday";
  return at >= week ? "week" : "earlier";
}

/** Milliseconds until the next midnight, when the groups change; at least a second. */
export const untilMidnight = (now = new Date()) => Math.min(DAY_MS, Math.max(1000, midnight(now, -1) - now.getTime()));
