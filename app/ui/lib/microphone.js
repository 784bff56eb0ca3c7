// Sound from the microphone, as a WAV of 16 kHz, mono, 16 bits.

import { createStore } from "./store.js";

const RATE = 16_000;
const devices = navigator.mediaDevices; // Nothing, where the page came over a line that others can read.

/** Why nobody can be heard here: the name of a string; null when somebody can. */
export const ears = createStore({ why: window.AudioWorkletNode ? "talk.none" : "talk.old" });

/** Microphones come and go. */
async function look() {
  const all = await devices.enumerateDevices();
  ears.set({ why: all.some(({ kind }) => kind === "audioinput") ? null : "talk.none" });
}

if (devices && window.AudioWorkletNode) {
  devices.addEventListener("devicechange", look);
  look();
}

/** Begins to listen; promises `{ stop, cancel }`, of which `stop` promises the WAV. */
export async function listen() {
  const stream = await devices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true } });
  const context = new AudioContext();
  const heard = [];
  const end = async () => {
    stream.getTracks().forEach((track) => track.stop());
    if (context.state !== "closed") await context.close();
  };
  try {
    await context.audioWorklet.addModule("lib/recorder.js");
    const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data }) => heard.push(data);
    context.createMediaStreamSource(stream).connect(recorder);
  } catch (error) {
    await end();
    throw error;
  }
  const { sampleRate } = context;
  return { cancel: end, stop: () => end().then(() => resampled(heard, sampleRate)).then(wav) };
}

/** The samples at our rate; the browser filters what that cannot hold. */
async function resampled(pieces, rate) {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  if (!length) return new Float32Array();
  const context = new OfflineAudioContext(1, Math.ceil((length * RATE) / rate), RATE);
  const buffer = context.createBuffer(1, length, rate);
  let at = 0;
  for (const piece of pieces) {
    buffer.copyToChannel(piece, 0, at);
    at += piece.length;
  }
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  source.start();
  return (await context.startRendering()).getChannelData(0);
}

/** 16-bit PCM behind the plain header, as a little-endian machine has both in memory. */
function wav(samples) {
  const data = Int16Array.from(samples, (sample) => Math.max(-1, Math.min(1, sample)) * 32_767);
  const size = data.byteLength;
  // RIFF, its size, WAVE, fmt, its size, PCM in one channel, rate, bytes a second, 2 bytes of 16 bits, data, its size
  const header = Uint32Array.of(0x46464952, 36 + size, 0x45564157, 0x20746d66, 16, 0x00010001, RATE, 2 * RATE, 0x00100002, 0x61746164, size);
  const file = new Uint8Array(header.byteLength + size);
  file.set(new Uint8Array(header.buffer));
  file.set(new Uint8Array(data.buffer), header.byteLength);
  return file;
}
