// A test is a name and a function that throws when it fails.

const cases = [];
const notes = [];

/** A line for the report of a run that passes, such as a count. */
export function note(line) {
  notes.push(line);
}

export function test(name, body) {
  cases.push({ name, body });
}

export function equal(actual, expected) {
  const [got, wanted] = [written(actual), written(expected)];
  if (got !== wanted) throw new Error(`got ${got}, expected ${wanted}`);
}

export function throws(act, words) {
  let error = null;
  try {
    act();
  } catch (thrown) {
    error = thrown;
  }
  if (!error?.message.includes(words)) throw new Error(`got ${error}, expected ${words}`);
}

/** `{ passed, failed: [{ name, why }], notes }` */
export async function runAll() {
  const failed = [];
  for (const { name, body } of cases) {
    try {
      await body();
    } catch (error) {
      failed.push({ name, why: String(error.stack ?? error) });
    }
  }
  return { passed: cases.length - failed.length, failed, notes };
}

const written = (value) =>
  JSON.stringify(value, (_, part) => (part === undefined ? "(undefined)" : part));
