//! The sampling parameters that a model's file recommends: its entries `general.sampling.*`.
//!
//! - Reads numbers only. Their ranges are those of a request, which the daemon checks.

use crate::gguf::{Header, Value};

/// An entry of the file, by the names of llama.cpp (`llama_model_meta_key`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingEntry {
    pub key: &'static str,
    /// Its name in a request; `None`: Hob has no such sampler.
    pub parameter: Option<&'static str>,
    /// `None`: the file has something else than a number there. It may be NaN or infinite.
    pub value: Option<f64>,
}

/// Hob has no `mirostat`, and its samplers have one order, llama.cpp's default for `sequence`.
const ENTRIES: [(&str, Option<&str>); 12] = [
    ("general.sampling.temp", Some("temperature")),
    ("general.sampling.top_p", Some("top_p")),
    ("general.sampling.top_k", Some("top_k")),
    ("general.sampling.min_p", Some("min_p")),
    ("general.sampling.penalty_repeat", Some("repeat_penalty")),
    ("general.sampling.penalty_last_n", Some("repeat_last_n")),
    ("general.sampling.sequence", None),
    ("general.sampling.xtc_probability", Some("xtc_probability")),
    ("general.sampling.xtc_threshold", Some("xtc_threshold")),
    ("general.sampling.mirostat", None),
    ("general.sampling.mirostat_tau", None),
    ("general.sampling.mirostat_eta", None),
];

impl SamplingEntry {
    /// The parameters that the file has.
    pub(crate) fn all(header: &Header) -> Vec<Self> {
        let entry = |&(key, parameter): &(&'static str, Option<&'static str>)| {
            let value = number(header.metadata.get(key)?);
            Some(Self { key, parameter, value })
        };
        ENTRIES.iter().filter_map(entry).collect()
    }

    /// The entry that a file would have for this parameter of a request.
    pub(crate) fn of(parameter: &str, value: f64) -> Self {
        let found = ENTRIES.iter().find(|(_, name)| *name == Some(parameter));
        let &(key, parameter) = found.expect("files have an entry for it");
        Self { key, parameter, value: Some(value) }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(shortest(*number)),
        Value::Unsigned(number) => Some(*number as f64),
        Value::Signed(number) => Some(*number as f64),
        Value::Bool(_) | Value::Text(_) | Value::Array(_) => None,
    }
}

/// The number that was written: files have 32 bits for it, in which 0.3 is 0.30000001192092896.
fn shortest(number: f64) -> f64 {
    let written = (number as f32).to_string();
    written.parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Gguf, asset};

    fn read(gguf: &Gguf) -> Vec<SamplingEntry> {
        let bytes = gguf.bytes();
        let len = bytes.len() as u64;
        SamplingEntry::all(&crate::gguf::read(std::io::Cursor::new(bytes), len).unwrap())
    }

    #[test]
    fn the_bundled_model_recommends_a_temperature() {
        let entries = SamplingEntry::all(&Header::open(&asset("hob-tiny-f16.gguf")).unwrap());
        let key = "general.sampling.temp";
        let expected = SamplingEntry { key, parameter: Some("temperature"), value: Some(0.3) };
        assert_eq!(entries, [expected]);
    }

    #[test]
    fn each_entry_has_a_number_or_none() {
        let gguf = Gguf::new("llama")
            .number("general.sampling.top_k", 40)
            .text("general.sampling.min_p", "0.05")
            .float("general.sampling.top_p", f32::NAN)
            .number("general.sampling.mirostat", 2)
            .float("general.sampling.xtc_probability", 0.5)
            .number("general.sampling.unknown", 1);
        let values = read(&gguf);
        let facts = |name: &str| {
            let found = values.iter().find(|entry| entry.key.ends_with(name)).unwrap();
            (found.parameter, found.value)
        };
        assert_eq!(facts(".top_k"), (Some("top_k"), Some(40.0)));
        assert_eq!(facts(".min_p"), (Some("min_p"), None));
        assert!(facts(".top_p").1.unwrap().is_nan());
        assert_eq!(facts(".mirostat"), (None, Some(2.0)));
        assert_eq!(facts(".xtc_probability"), (Some("xtc_probability"), Some(0.5)));
        assert_eq!(values.len(), 5);
    }
}
