// What a press of push to talk needs, loaded with the first one: recording, transcripts, and sound.

import { api } from "/lib.js";
import { play } from "/lib/sound.js";

export { record } from "/lib/recording.js";
export { createSpeaker } from "./speaker.js";
export { streamSpeech } from "./spoken.js";

/** The text of a whole recording. */
export async function transcribed(recording, signal) {
  const options = { type: "audio/wav", signal };
  return (await api.post("/v1/voice/transcriptions", await recording.stop(), options)).text;
}

/** Plays a short phrase during the transcription, if the daemon has one. */
export async function playFiller(id, signal) {
  try {
    const query = `stopped=true&conversation=${encodeURIComponent(id)}`;
    const sound = await api.bytes("GET", `/v1/voice/filler?${query}`, { signal });
    if (sound.size) await play(sound, signal);
  } catch {
    // The answer comes without a filler.
  }
}
