// Sound from the microphone, as a WAV of 16 kHz, mono, 16 bits.

const RATE = 16_000;

/** Why nobody can be heard here: the name of a string; null when somebody can. */
export const unheard = () =>
  !window.isSecureContext || !navigator.mediaDevices?.getUserMedia ? "talk.none" : !window.AudioWorkletNode ? "talk.old" : null;

/** Begins to listen; promises `{ stop, cancel }`, of which `stop` promises the WAV. */
export async function listen() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true } });
  const context = new AudioContext();
  const heard = [];
  const end = async () => {
    stream.getTracks().forEach((track) => track.stop());
    if (context.state !== "closed") await context.close();
  };
  try {
    await context.audioWorklet.addModule("parts/recorder.js");
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

/** 16-bit PCM behind the plain header. */
export function wav(samples) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, word) => [...word].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  text(8, "WAVEfmt ");
  [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, RATE, 4], [28, 2 * RATE, 4], [32, 2, 2], [34, 16, 2]].forEach(([at, value, bytes]) => (bytes === 4 ? view.setUint32(at, value, true) : view.setUint16(at, value, true)));
  text(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, index) => view.setInt16(44 + 2 * index, Math.max(-1, Math.min(1, sample)) * 32_767, true));
  return new Uint8Array(view.buffer);
}
