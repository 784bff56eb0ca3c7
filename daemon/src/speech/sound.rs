//! Mono sound of 16 bits a sample.

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
        let samples = Resampler::new(self.rate, rate).process(&self.samples);
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

/// Changes the rate of a stream of sound by linear interpolation, which is enough for speech.
#[derive(Clone, Debug)]
pub struct Resampler {
    from: u32,
    to: u32,
    /// The last sample of the piece before.
    last: i16,
    /// Of the next sample to return, in samples behind `last`.
    position: f64,
}

impl Resampler {
    pub fn new(from: u32, to: u32) -> Self {
        Self { from, to, last: 0, position: 1.0 }
    }

    /// The next piece, of any length.
    pub fn process(&mut self, samples: &[i16]) -> Vec<i16> {
        let Some(&last) = samples.last().filter(|_| self.from != self.to) else {
            return samples.to_vec();
        };
        let step = f64::from(self.from) / f64::from(self.to);
        let end = samples.len() as f64;
        let at = |index: usize| match index.checked_sub(1) {
            Some(index) => f64::from(samples[index]),
            None => f64::from(self.last),
        };
        let mut out = Vec::with_capacity((end / step) as usize + 1);
        while self.position < end {
            let index = self.position as usize;
            let part = self.position - index as f64;
            let (before, after) = (at(index), at(index + 1));
            out.push((before + (after - before) * part).round() as i16); // Between the two.
            self.position += step;
        }
        self.position -= end;
        self.last = last;
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, seconds: f64) -> Vec<i16> {
        let count = (f64::from(rate) * seconds) as u32;
        let at = |sample: u32| f64::from(sample) / f64::from(rate) * 440.0 * std::f64::consts::TAU;
        (0..count).map(|sample| (at(sample).sin() * 8_000.0) as i16).collect()
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
