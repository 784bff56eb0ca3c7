// Records from the microphone, mono, 16 bits: as a WAV of 16 kHz, or piece by piece at the microphone's rate.

import { SAMPLE_RATE, pcm, wav } from "./wav.js";

/**
 * Starts recording. `stop()` ends it and resolves to the WAV, `end()` only ends it. `take()` returns the
 * PCM since the last call, at `sampleRate`, and leaves it out of the WAV. `isMuted()`: by the system or a switch of
 * the microphone, which records silence then.
 */
export async function record() {
  const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true };
  const stream = await navigator.mediaDevices.getUserMedia({ audio });
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
    return wav(await resampled(joined(chunks), sampleRate));
  };
  const take = () => pcm(joined(chunks.splice(0))).buffer;
  const isMuted = () => stream.getTracks().some(({ muted }) => muted);
  return { end, stop, take, isMuted, sampleRate };
}

function joined(chunks) {
  const all = new Float32Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

/** The samples at `SAMPLE_RATE`. The browser applies the low-pass filter. */
async function resampled(samples, rate) {
  const { length } = samples;
  if (!length) return samples;
  const frames = Math.ceil((length * SAMPLE_RATE) / rate);
  const context = new OfflineAudioContext(1, frames, SAMPLE_RATE);
  const buffer = context.createBuffer(1, length, rate);
  buffer.copyToChannel(samples, 0);
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  source.start();
  return (await context.startRendering()).getChannelData(0);
}
