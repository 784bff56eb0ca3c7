// What the prune dialog selects, as the daemon's request. Pure.

export const UNIT_SECS = { hours: 3600, days: 86_400, weeks: 7 * 86_400 };

const MIB = 2 ** 20;

export const initial = {
  expired: false,
  isOlder: false,
  older: 7,
  unit: "days",
  class: "",
  isLarger: false,
  larger: 16,
  isOwn: false,
};

/** The body of `/v1/slots/prune`; a conversation must meet all its criteria. */
export function selection(fields, fingerprint) {
  const { expired, isOlder, older, unit, class: name, isLarger, larger, isOwn } = fields;
  return {
    expired,
    ...(isOlder && { older_than_secs: Math.max(1, Math.round(older * UNIT_SECS[unit])) }),
    ...(name && { class: name }),
    ...(isLarger && { larger_than: Math.max(1, Math.round(larger * MIB)) }),
    ...(isOwn && { fingerprint }),
  };
}

export const isChosen = ({ expired, ...others }) => expired || Object.keys(others).length > 0;
