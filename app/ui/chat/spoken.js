// Sends the sound of a recording to the daemon while the user speaks; each answer has the transcript so far.
//
// - One request at a time: a piece has the sound since the last one.

import { api, pause } from "/lib.js";
import { conversationPath } from "./chats.js";

const PIECE_MS = 250;

/**
 * Begins once `ready` has resolved, and calls `show` with each transcript. Returns a function that ends
 * the recording and resolves to the final transcript.
 */
export function streamSpeech(id, recording, { ready, show, failed, signal }) {
  let utterance = null;
  let release;
  const released = new Promise((resolve) => (release = () => resolve(true)));

  async function post(end) {
    const { sampleRate: rate } = recording;
    const query = new URLSearchParams({ rate, end, ...(utterance && { utterance }) });
    const options = { type: "audio/pcm", signal };
    const answer = await api.post(conversationPath(id, `/audio?${query}`), recording.take(), options);
    utterance = answer.utterance;
    if (!signal.aborted) show(answer.transcript);
    return answer.transcript;
  }

  async function stream() {
    await ready;
    do await post(false);
    while (!(await Promise.race([released, pause(PIECE_MS)])));
    await recording.end();
    return post(true);
  }

  const transcript = stream();
  transcript.catch(failed);
  return () => {
    release();
    return transcript;
  };
}
