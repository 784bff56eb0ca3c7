// Speaks an answer while it streams: each request has the sentences that are complete and not yet spoken.
//
// - While one sound plays, the next is made.
// - A sentence that cannot be spoken ends the speech: the text is on the page.

import { api } from "/lib.js";
import { play } from "/lib/sound.js";

/** Up to the end of the last complete sentence. */
const SENTENCES = /^[^]*(?:[.!?…:;](?=\s)|[。！？\n])/u;
const HAS_WORDS = /[\p{L}\p{N}]/u;
/** The daemon's limit. */
const MAX_CHARS = 4096;

export function createSpeaker() {
  const controller = new AbortController();
  const { signal } = controller;
  let text = "";
  let spoken = 0;
  let isWhole = false;
  let isRunning = false;

  function next() {
    const rest = text.slice(spoken, spoken + MAX_CHARS);
    const part = isWhole || rest.length === MAX_CHARS ? rest : (SENTENCES.exec(rest)?.[0] ?? "");
    spoken += part.length;
    return part;
  }

  async function run() {
    if (isRunning) return;
    isRunning = true;
    let playing = null;
    try {
      for (let input = next(); input && !signal.aborted; input = next()) {
        if (!HAS_WORDS.test(input)) continue;
        const sound = await api.bytes("POST", "/v1/audio/speech", { body: { input }, signal });
        await playing;
        playing = play(sound, signal);
      }
    } catch {
      controller.abort();
    }
    isRunning = false;
  }

  return {
    /** The answer so far. */
    say(answer) {
      text = answer;
      run();
    },
    /** The answer is complete. */
    end() {
      isWhole = true;
      run();
    },
    stop: () => controller.abort(),
  };
}
