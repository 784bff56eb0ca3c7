//! Checks a WAV, and converts it to the form that every player reads: 16-bit PCM with a plain header.
//!
//! - A command that writes to a pipe does not know the length, and claims gigabytes: the sound ends
//!   with the bytes.
//! - Silent and damaged files are refused.

use std::io::Cursor;

use hob_prewarm::phrase::is_silent;
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

#[derive(Debug, thiserror::Error)]
pub enum WavError {
    #[error("the WAV is damaged: {0}")]
    Damaged(#[from] hound::Error),
    #[error("the sound is silent")]
    Silent,
}

/// Samples a second, at most. The writer divides by their number, and multiplies it by that of the channels, in 32
/// bits.
const MAX_RATE: u32 = 768_000;

const MAX_CHANNELS: u16 = 255;

pub fn checked(mut wav: Vec<u8>) -> Result<Vec<u8>, WavError> {
    mend_lengths(&mut wav);
    let reader = WavReader::new(Cursor::new(wav))?;
    let spec = reader.spec();
    if !(1..=MAX_RATE).contains(&spec.sample_rate) || !(1..=MAX_CHANNELS).contains(&spec.channels) {
        let what = "1 to 768,000 samples a second are played, of 1 to 255 channels";
        return Err(hound::Error::FormatError(what).into());
    }
    let samples: Result<Vec<i16>, hound::Error> = match spec.sample_format {
        SampleFormat::Float => reader.into_samples::<f32>().map(|s| s.map(from_float)).collect(),
        SampleFormat::Int => {
            let bits = u32::from(spec.bits_per_sample);
            reader.into_samples::<i32>().map(|s| s.map(|s| from_int(s, bits))).collect()
        }
    };
    let samples = samples?;
    if is_silent(&samples) {
        return Err(WavError::Silent);
    }
    let spec = WavSpec { bits_per_sample: 16, sample_format: SampleFormat::Int, ..spec };
    let mut out = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut out, spec)?;
    for sample in samples {
        writer.write_sample(sample)?;
    }
    writer.finalize()?;
    Ok(out.into_inner())
}

/// How long the sound is, silent or not; `None`: it is damaged.
pub fn seconds_of(wav: &[u8]) -> Option<f64> {
    let mut wav = wav.to_vec();
    mend_lengths(&mut wav);
    let reader = WavReader::new(Cursor::new(wav)).ok()?;
    Some(f64::from(reader.duration()) / f64::from(reader.spec().sample_rate.max(1)))
}

fn from_float(sample: f32) -> i16 {
    (sample * f32::from(i16::MAX)) as i16 // Saturates.
}

fn from_int(sample: i32, bits: u32) -> i16 {
    match bits {
        0..=16 => (sample << (16 - bits)) as i16,
        _ => (sample >> (bits - 16)) as i16,
    }
}

/// Shortens a chunk that claims more bytes than follow. The reader refuses what is not a WAV.
fn mend_lengths(wav: &mut [u8]) {
    const RIFF_HEAD: usize = 12;
    const CHUNK_HEAD: usize = 8;
    let mut at = RIFF_HEAD;
    let mut unit = 1; // Bytes of one sample in all channels.
    while wav.len() >= at + CHUNK_HEAD {
        let body = at + CHUNK_HEAD;
        let left = wav.len() - body;
        let length = u32::from_le_bytes(wav[at + 4..body].try_into().expect("it is four bytes"));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if &wav[at..at + 4] == b"fmt " && left >= 14 {
            unit = usize::from(u16::from_le_bytes([wav[body + 12], wav[body + 13]])).max(1);
        }
        if length > left {
            let whole = u32::try_from(left - left % unit).unwrap_or(u32::MAX);
            wav[at + 4..body].copy_from_slice(&whole.to_le_bytes());
            return;
        }
        at = body + length + length % 2; // Chunks begin at even offsets.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_sample_format_becomes_16_bits() {
        for (bits, format) in [
            (8, SampleFormat::Int),
            (16, SampleFormat::Int),
            (24, SampleFormat::Int),
            (32, SampleFormat::Int),
            (32, SampleFormat::Float),
        ] {
            let made = checked(square(bits, format)).unwrap();
            let reader = WavReader::new(Cursor::new(made)).unwrap();
            assert_eq!((reader.spec().sample_rate, reader.spec().bits_per_sample), (22_050, 16));
            let samples: Vec<i16> = reader.into_samples().map(Result::unwrap).collect();
            assert_eq!(samples.len(), 2_000);
            let loud = samples.iter().all(|s| (8_100..8_300).contains(&s.unsigned_abs()));
            assert!(loud, "{bits} bits: {:?}", &samples[..4]);
        }
    }

    #[test]
    fn a_sound_without_a_rate_or_of_a_rate_that_nothing_plays_is_damaged() {
        let rate = |rate: u32| {
            let mut wav = square(16, SampleFormat::Int);
            wav[24..28].copy_from_slice(&rate.to_le_bytes());
            wav[28..32].copy_from_slice(&rate.wrapping_mul(2).to_le_bytes()); // Bytes a second.
            checked(wav)
        };
        assert!(rate(8_000).is_ok() && rate(MAX_RATE).is_ok());
        for wrong in [0, MAX_RATE + 1, u32::MAX] {
            assert!(matches!(rate(wrong), Err(WavError::Damaged(_))), "{wrong}");
        }
    }

    #[test]
    fn the_length_claimed_by_a_pipe_is_corrected() {
        let wav = square(16, SampleFormat::Int);
        for claimed in [0x7fff_f000_u32, u32::MAX] {
            let mut piped = wav.clone();
            piped[40..44].copy_from_slice(&claimed.to_le_bytes());
            assert_eq!(checked(piped).unwrap(), wav);
        }
        let mut torn = wav.clone();
        torn.truncate(wav.len() - 3);
        assert_eq!(checked(torn).unwrap().len(), wav.len() - 4);
    }

    #[test]
    fn silence_and_other_formats_are_refused() {
        let mut silent = square(16, SampleFormat::Int);
        silent[44..].fill(0);
        assert!(matches!(checked(silent), Err(WavError::Silent)));
        let mut empty = square(16, SampleFormat::Int);
        empty.truncate(44);
        assert!(matches!(checked(empty), Err(WavError::Silent)));
        for text in ["", "RIFF", "espeak: no such voice", "RIFF....WAVEfmt \u{10}\0\0\0"] {
            assert!(matches!(checked(text.into()), Err(WavError::Damaged(_))), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_header_panics_the_reader(
            changes in proptest::collection::vec((0_usize..60, proptest::num::u8::ANY), 1..6),
            float in proptest::bool::ANY,
        ) {
            let format = if float { SampleFormat::Float } else { SampleFormat::Int };
            let mut wav = square(32, format);
            for (at, byte) in changes {
                wav[at] = byte;
            }
            if let Ok(once) = checked(wav) {
                proptest::prop_assert_eq!(checked(once.clone()).unwrap(), once);
            }
        }
    }

    fn square(bits: u16, sample_format: SampleFormat) -> Vec<u8> {
        let spec =
            WavSpec { channels: 1, sample_rate: 22_050, bits_per_sample: bits, sample_format };
        let mut out = Cursor::new(Vec::new());
        let mut writer = WavWriter::new(&mut out, spec).unwrap();
        for at in 0..2_000 {
            let quarter = if at % 100 < 50 { 0.25_f32 } else { -0.25 };
            match sample_format {
                SampleFormat::Float => writer.write_sample(quarter).unwrap(),
                SampleFormat::Int => {
                    let full = 2_f32.powi(i32::from(bits) - 1);
                    writer.write_sample((quarter * full) as i32).unwrap();
                }
            }
        }
        writer.finalize().unwrap();
        out.into_inner()
    }
}
