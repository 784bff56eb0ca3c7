// How long the KV of a saved conversation stays ready, and the change of it.

import { api, createStore, formatter, pause, t } from "/lib.js";
import { TTL_CLASSES } from "/lib/ttl.js";
import { orToast, toast } from "/parts.js";
import { refresh } from "./live.js";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A lifetime is written in the largest unit that divides it: 36 hours. */
const UNITS = [["day", DAY], ["hour", HOUR], ["minute", MINUTE], ["second", 1]];

/** `lifetimes`: seconds by class, null where only the quota ends it; `undefined` from an older daemon. */
export const keepOptions = (lifetimes) => TTL_CLASSES.map((name) => [name, keepName(lifetimes?.[name])]).reverse();

function keepName(seconds) {
  if (seconds == null) return t("keep.room");
  const [unit, length] = UNITS.find(([, length]) => seconds % length === 0);
  return formatter(Intl.NumberFormat, { style: "unit", unit, unitDisplay: "long" }).format(seconds / length);
}

/** "in 5 hr.", to the unit that matters. */
export function ahead(seconds) {
  const relative = formatter(Intl.RelativeTimeFormat, { numeric: "always", style: "short" });
  const [minutes, hours, days] = [MINUTE, HOUR, DAY].map((unit) => Math.max(1, Math.round(seconds / unit)));
  if (minutes < 60) return relative.format(minutes, "minute");
  return hours < 24 ? relative.format(hours, "hour") : relative.format(days, "day");
}

/** The classes that were asked for and are not on disk yet: that of a hot chat is written with its next record. */
export const asked = createStore({ classes: new Map() });

const AGAIN_MS = 1500;
const MAX_TRIES = 10;

const keyOf = ({ conversation, fingerprint }) => `${fingerprint} ${conversation}`;

/** The class that the user has chosen last. */
export const classOf = (row, classes) => classes.get(keyOf(row)) ?? row.class;

export async function setClass(row, name) {
  const { conversation, fingerprint } = row;
  const put = (value) => {
    const classes = new Map(asked.get().classes);
    if (value) classes.set(keyOf(row), value);
    else classes.delete(keyOf(row));
    asked.set({ classes });
  };
  put(name);
  const done = await orToast(api.post("/v1/slots/class", { conversation, fingerprint, class: name }));
  const [skipped] = done?.skipped ?? [];
  if (skipped) toast(t("files.skipped", skipped));
  for (let tries = 0; done && !skipped && tries < MAX_TRIES; tries += 1) {
    const slots = await refresh();
    const saved = slots?.data.find((other) => keyOf(other) === keyOf(row));
    if (!saved || saved.class === name) break;
    await pause(AGAIN_MS);
  }
  put(null);
}
