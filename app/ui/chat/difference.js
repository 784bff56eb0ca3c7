// Where two texts that begin differently become the same again. Pure.

/** A difference ends where this many characters, or all the rest, are equal. */
const MIN_EQUAL = 8;

/** The lengths of the differing beginnings of both texts. */
export function difference(one, other) {
  for (let sum = 0; sum < one.length + other.length; sum += 1) {
    const longest = Math.min(sum, one.length);
    for (let skipped = Math.max(0, sum - other.length); skipped <= longest; skipped += 1) {
      if (sameRest(one, skipped, other, sum - skipped)) return [skipped, sum - skipped];
    }
  }
  return [one.length, other.length];
}

function sameRest(one, oneStart, other, otherStart) {
  const length = Math.min(one.length - oneStart, other.length - otherStart);
  if (length < MIN_EQUAL) return false;
  return one.substr(oneStart, length) === other.substr(otherStart, length);
}
