//! Mono sound of 16 bits a sample.

use std::f64::consts::PI;
use std::io::Cursor;

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

use super::wav::{self, WavError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    /// Samples a second.
    pub rate: u32,
    pub samples: Vec<i16>,
}

impl Sound {
    /// The mean of the channels of a WAV.
    ///
    /// # Errors
    /// When the WAV is damaged or silent.
    pub fn from_wav(wav: Vec<u8>) -> Result<Self, WavError> {
        let reader = WavReader::new(Cursor::new(wav::checked(wav)?))?;
        let WavSpec { channels, sample_rate: rate, .. } = reader.spec();
        let samples = reader.into_samples::<i16>().collect::<Result<Vec<_>, _>>()?;
        let channels = usize::from(channels.max(1));
        let mean = |frame: &[i16]| {
            let sum: i64 = frame.iter().map(|&sample| i64::from(sample)).sum();
            (sum / frame.len() as i64) as i16 // Between the samples.
        };
        Ok(Self { rate, samples: samples.chunks(channels).map(mean).collect() })
    }

    pub fn at_rate(&self, rate: u32) -> Self {
        let mut resampler = Resampler::new(self.rate, rate);
        let mut samples = resampler.process(&self.samples);
        samples.extend(resampler.finish());
        Self { rate, samples }
    }

    /// 16 bits a sample, little endian.
    pub fn to_pcm(&self) -> Vec<u8> {
        self.samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
    }

    pub fn to_wav(&self) -> Vec<u8> {
        let spec = WavSpec {
            channels: 1,
            sample_rate: self.rate,
            bits_per_sample: 16,
            sample_format: SampleFormat::Int,
        };
        let mut out = Cursor::new(Vec::new());
        let mut writer = WavWriter::new(&mut out, spec).expect("16-bit mono has a header");
        for &sample in &self.samples {
            writer.write_sample(sample).expect("memory takes every sample");
        }
        writer.finalize().expect("memory takes the header");
        out.into_inner()
    }
}

/// Changes the rate of a stream of sound.
///
/// A new sample is the sum of the old ones around it, weighted by a windowed sinc. It removes what is
/// above half of the lower rate: such frequencies would sound as others, and recognisers would hear
/// noise.
#[derive(Clone, Debug)]
pub struct Resampler {
    from: u32,
    to: u32,
    /// The old samples that the next new one needs.
    recent: Vec<i16>,
    /// Position of the next new sample, in old samples from the beginning of `recent`.
    position: f64,
}

/// Zero crossings of the sinc on each side.
const CROSSINGS: f64 = 4.0;

impl Resampler {
    /// From `from` to `to` samples a second.
    pub fn new(from: u32, to: u32) -> Self {
        let mut new = Self { from, to, recent: Vec::new(), position: 0.0 };
        new.recent = new.silence();
        new.position = new.recent.len() as f64;
        new
    }

    /// The next piece, of any length.
    pub fn process(&mut self, samples: &[i16]) -> Vec<i16> {
        if self.from == self.to {
            return samples.to_vec();
        }
        let (step, reach) = (f64::from(self.from) / f64::from(self.to), self.reach());
        self.recent.extend_from_slice(samples);
        let mut out = Vec::with_capacity((samples.len() as f64 / step) as usize + 1);
        while (self.position + reach).ceil() as usize <= self.recent.len() {
            out.push(self.sample());
            self.position += step;
        }
        let unneeded = ((self.position - reach) as usize).min(self.recent.len());
        self.recent.drain(..unneeded);
        self.position -= unneeded as f64;
        out
    }

    /// The end of the stream.
    pub fn finish(&mut self) -> Vec<i16> {
        if self.from == self.to { Vec::new() } else { self.process(&self.silence()) }
    }

    fn sample(&self) -> i16 {
        let reach = self.reach();
        let first = (self.position - reach).floor() as usize + 1;
        let end = (self.position + reach).ceil() as usize;
        let (mut sum, mut weights) = (0.0, 0.0);
        for index in first..end {
            let weight = weight((index as f64 - self.position) / reach);
            sum += f64::from(self.recent[index]) * weight;
            weights += weight;
        }
        let loudest = f64::from(i16::MAX); // The sinc exceeds what it joins.
        (sum / weights).round().clamp(-loudest, loudest) as i16
    }

    /// How far from a new sample the old ones count, in old samples.
    fn reach(&self) -> f64 {
        CROSSINGS * (f64::from(self.from) / f64::from(self.to)).max(1.0)
    }

    fn silence(&self) -> Vec<i16> {
        vec![0; self.reach().ceil() as usize]
    }
}

/// Weight of a sample at `distance`, between -1 and 1: a sinc under Hann's window.
fn weight(distance: f64) -> f64 {
    let phase = PI * distance * CROSSINGS;
    let sinc = if phase == 0.0 { 1.0 } else { phase.sin() / phase };
    sinc * (1.0 + (PI * distance).cos()) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, seconds: f64) -> Vec<i16> {
        wave(rate, 440.0)[..(f64::from(rate) * seconds) as usize].to_vec()
    }

    /// One second.
    fn wave(rate: u32, hertz: f64) -> Vec<i16> {
        let at = |sample: u32| f64::from(sample) / f64::from(rate) * hertz * std::f64::consts::TAU;
        (0..rate).map(|sample| (at(sample).sin() * 8_000.0) as i16).collect()
    }

    #[test]
    fn a_tone_is_the_same_tone_at_another_rate() {
        for (from, to) in [(24_000, 16_000), (22_050, 24_000), (8_000, 16_000)] {
            let other = Sound { rate: from, samples: tone(from, 0.5) }.at_rate(to);
            let wanted = tone(to, 0.5);
            assert!(other.samples.len().abs_diff(wanted.len()) <= 4, "{from} to {to}");
            let differs = |(a, b): (&i16, &i16)| a.abs_diff(*b);
            let most = other.samples.iter().zip(&wanted).map(differs).max();
            assert!(most < Some(400), "{from} to {to}: {most:?} of 8,000");
        }
    }

    #[test]
    fn frequencies_above_half_of_the_new_rate_become_no_others() {
        for (from, hertz) in [(48_000, 14_000.0), (22_050, 10_500.0), (96_000, 30_000.0)] {
            let other = Sound { rate: from, samples: wave(from, hertz) }.at_rate(16_000);
            let most = other.samples.iter().map(|sample| sample.unsigned_abs()).max();
            assert!(most < Some(1_800), "{hertz} Hz at {from}: {most:?} of 8,000");
        }
    }

    #[test]
    fn a_stream_does_not_depend_on_its_pieces() {
        let sound = tone(24_000, 0.2);
        let whole = Resampler::new(24_000, 16_000).process(&sound);
        for length in [1, 7, 480] {
            let mut resampler = Resampler::new(24_000, 16_000);
            let pieces: Vec<i16> =
                sound.chunks(length).flat_map(|piece| resampler.process(piece)).collect();
            assert_eq!(pieces, whole, "pieces of {length}");
        }
    }

    #[test]
    fn channels_are_mixed_and_a_wav_is_read_back() {
        let spec = WavSpec {
            channels: 2,
            sample_rate: 8_000,
            bits_per_sample: 16,
            sample_format: SampleFormat::Int,
        };
        let mut wav = Cursor::new(Vec::new());
        let mut writer = WavWriter::new(&mut wav, spec).unwrap();
        for sample in [1_000_i16, 3_000, -200, -400] {
            writer.write_sample(sample).unwrap();
        }
        writer.finalize().unwrap();
        let sound = Sound::from_wav(wav.into_inner()).unwrap();
        assert_eq!(sound, Sound { rate: 8_000, samples: vec![2_000, -300] });
        assert_eq!(Sound::from_wav(sound.to_wav()).unwrap(), sound);
        assert_eq!(sound.to_pcm(), [2_000_i16.to_le_bytes(), (-300_i16).to_le_bytes()].concat());
    }
}
