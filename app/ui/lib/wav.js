// A WAV file: 16-bit PCM, mono. Pure; the machine is little-endian, as the format is.

export const SAMPLE_RATE = 16_000;

const PCM = 1;
const CHANNELS = 1;
const SAMPLE_BYTES = 2;

/** Samples between -1 and 1 as 16-bit integers; samples outside are clipped. */
export const pcm = (samples) =>
  Int16Array.from(samples, (sample) => Math.max(-1, Math.min(1, sample)) * 32_767);

/** The file of samples. */
export function wav(samples) {
  const data = pcm(samples);
  const u16 = (...values) => Uint16Array.from(values);
  const u32 = (...values) => Uint32Array.from(values);
  const format = [
    u16(PCM, CHANNELS),
    u32(SAMPLE_RATE, SAMPLE_RATE * SAMPLE_BYTES),
    u16(SAMPLE_BYTES, 8 * SAMPLE_BYTES),
  ];
  const size = data.byteLength;
  const header = ["RIFF", u32(36 + size), "WAVEfmt ", u32(16), ...format, "data", u32(size)];
  return new Blob([...header, data]).arrayBuffer();
}
