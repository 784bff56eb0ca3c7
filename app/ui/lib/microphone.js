// Records from the microphone, as WAV: 16 kHz, mono, 16 bits.

import { createStore } from "./store.js";
import { SAMPLE_RATE, wav } from "./wav.js";

// Undefined in an insecure context, such as plain HTTP from another machine.
const devices = navigator.mediaDevices;

/** `problem`: the string that says why recording is impossible. */
export const microphone = createStore({
  problem: window.AudioWorkletNode ? "talk.none" : "talk.old",
});

async function detect() {
  const all = await devices.enumerateDevices();
  const isThere = all.some(({ kind }) => kind === "audioinput");
  microphone.set({ problem: isThere ? null : "talk.none" });
}

if (devices && window.AudioWorkletNode) {
  devices.addEventListener("devicechange", detect);
  detect();
}

/** Starts recording. Resolves to `{ stop, cancel }`; `stop()` resolves to the WAV. */
export async function record() {
  const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true };
  const stream = await devices.getUserMedia({ audio });
  const context = new AudioContext();
  const chunks = [];
  const end = async () => {
    stream.getTracks().forEach((track) => track.stop());
    if (context.state !== "closed") await context.close();
  };
  try {
    await context.audioWorklet.addModule("lib/recorder.js");
    const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data }) => chunks.push(data);
    context.createMediaStreamSource(stream).connect(recorder);
  } catch (error) {
    await end();
    throw error;
  }
  const { sampleRate } = context;
  const stop = async () => {
    await end();
    return wav(await resampled(chunks, sampleRate));
  };
  return { cancel: end, stop };
}

/** The samples at `SAMPLE_RATE`. The browser applies the low-pass filter. */
async function resampled(chunks, rate) {
  const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  if (!length) return new Float32Array();
  const frames = Math.ceil((length * SAMPLE_RATE) / rate);
  const context = new OfflineAudioContext(1, frames, SAMPLE_RATE);
  const buffer = context.createBuffer(1, length, rate);
  let at = 0;
  for (const chunk of chunks) {
    buffer.copyToChannel(chunk, 0, at);
    at += chunk.length;
  }
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  source.start();
  return (await context.startRendering()).getChannelData(0);
}
