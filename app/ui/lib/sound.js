// Plays sounds one after the other.

let queue = Promise.resolve();

/** Plays a sound after those before it. Resolves when it has ended, or `signal` has stopped it. */
export function play(sound, signal) {
  // The page may not play yet.
  queue = queue.then(() => played(sound, signal)).catch(() => {});
  return queue;
}

async function played(sound, signal) {
  if (signal.aborted) return;
  const url = URL.createObjectURL(sound);
  const audio = new Audio(url);
  const stop = () => audio.pause();
  signal.addEventListener("abort", stop);
  try {
    // Its end pauses a sound too.
    const ended = new Promise((resolve) => (audio.onpause = resolve));
    await audio.play();
    await ended;
  } finally {
    signal.removeEventListener("abort", stop);
    URL.revokeObjectURL(url);
  }
}
