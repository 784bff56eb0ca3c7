//! Parses text and TOML values into typed settings, one function a type.
//!
//! - Pure: no file, no environment. Each function returns a value, or the problem and its remedy.
//! - The file's integers and the environment's text mean the same: `8192` and `"8192"`.

mod urls;

use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use crate::values::{ContextChoice, GpuLayers};

pub use urls::{address, device_bridge, endpoint, shared, upstream};

/// An unparsed value of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// Text, also of a number: environment, flags, TOML strings.
    Text(String),
    /// A TOML integer.
    Integer(i64),
    /// A TOML array of strings, or a flag that was repeated.
    List(Vec<String>),
    /// A TOML value of a type that no setting has.
    Other(&'static str),
}

/// Why a value was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    /// The end of the sentence "this value …".
    pub problem: String,
    /// An instruction: what to write instead.
    pub remedy: String,
}

impl std::fmt::Display for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::List(items) => write!(f, "{items:?}"),
            Self::Other(what) => write!(f, "({what})"),
        }
    }
}

/// A whole number within `range`.
pub fn number(raw: &Raw, range: RangeInclusive<u64>) -> Result<u64, InvalidValue> {
    let remedy = match (*range.start(), *range.end()) {
        (start, u64::MAX) => format!("write a whole number of at least {start}"),
        (start, end) => format!("write a whole number from {start} to {end}"),
    };
    let value = match raw {
        Raw::Integer(number) => i128::from(*number),
        Raw::Text(text) => match text.trim().replace('_', "").parse() {
            Ok(number) => number,
            Err(_) => return Err(invalid("is not a whole number", &remedy)),
        },
        _ => return Err(invalid("is not a whole number", &remedy)),
    };
    match u64::try_from(value) {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(invalid("is out of range", &remedy)),
    }
}

/// A whole number of tokens, or `auto`.
pub fn context(raw: &Raw) -> Result<ContextChoice, InvalidValue> {
    let tokens = number_or_auto(raw, ContextChoice::TOKENS)?;
    Ok(tokens.map_or(ContextChoice::Auto, ContextChoice::Tokens))
}

/// A whole number of layers, or `auto`.
pub fn gpu_layers(raw: &Raw) -> Result<GpuLayers, InvalidValue> {
    let count = number_or_auto(raw, GpuLayers::COUNTS)?;
    Ok(count.map_or(GpuLayers::Auto, GpuLayers::Count))
}

/// A whole number within `range`, of 32 bits, or `auto`, which is `None`.
fn number_or_auto(raw: &Raw, range: RangeInclusive<u64>) -> Result<Option<u32>, InvalidValue> {
    if matches!(raw, Raw::Text(text) if text.trim().eq_ignore_ascii_case("auto")) {
        return Ok(None);
    }
    let remedy =
        format!("write \"auto\", or a whole number from {} to {}", range.start(), range.end());
    let number = number(raw, range).map_err(|other| InvalidValue { remedy, ..other })?;
    Ok(Some(u32::try_from(number).expect("the bounds have 32 bits")))
}

/// Names of devices. Whether they exist is known when the model is loaded.
pub fn devices(raw: &Raw) -> Result<Vec<String>, InvalidValue> {
    items(raw, ',', "CUDA0")
}

/// Adapters: their files and factors.
pub fn adapters(raw: &Raw) -> Result<Vec<(String, f32)>, InvalidValue> {
    let items = items(raw, ',', "style.gguf=0.5")?;
    let adapter = |item: &String| match item.rsplit_once('=') {
        None => Ok((item.clone(), 1.0)),
        Some((path, scale)) => match scale.trim().parse::<f32>() {
            Ok(scale) if scale.is_finite() => Ok((path.trim().to_owned(), scale)),
            _ => Err(invalid("has a factor that is no number", "write FILE or FILE=0.5")),
        },
    };
    items.iter().map(adapter).collect()
}

/// Adapters of requests: their names, which differ, and their files. A file without a name has its own,
/// without `.gguf`.
pub fn named_adapters(raw: &Raw) -> Result<Vec<(String, String)>, InvalidValue> {
    let mut adapters: Vec<(String, String)> = Vec::new();
    for item in items(raw, ',', "style=style.gguf")? {
        let given = item.split_once('=').filter(|(name, _)| !name.contains(['/', '\\', '.']));
        let (name, path) = match given {
            Some((name, path)) => (name.trim().to_owned(), path.trim().to_owned()),
            None => {
                let name = Path::new(&item).file_stem().unwrap_or_default();
                (name.to_string_lossy().into_owned(), item)
            }
        };
        if name.is_empty() || path.is_empty() {
            return Err(invalid("has an adapter without a name or a file", "write NAME=FILE"));
        }
        if adapters.iter().any(|(other, _)| *other == name) {
            return Err(invalid(
                "has two adapters of one name",
                "give each a name of its own: NAME=FILE",
            ));
        }
        adapters.push((name, path));
    }
    Ok(adapters)
}

/// Parts in whole numbers; not all are 0.
pub fn parts(raw: &Raw) -> Result<Vec<u32>, InvalidValue> {
    let remedy = "write a whole number for each device, such as \"3,1\", one of them above 0";
    let wrong = || invalid("is not a list of parts", remedy);
    let items = match raw {
        Raw::Integer(number) => vec![number.to_string()],
        other => items(other, ',', "3,1").map_err(|_| wrong())?,
    };
    let parts: Option<Vec<u32>> = items.iter().map(|item| item.parse().ok()).collect();
    // No part at all is the default.
    let parts = parts.ok_or_else(wrong)?;
    if parts.is_empty() || parts.iter().any(|&part| part > 0) { Ok(parts) } else { Err(wrong()) }
}

/// A number of bytes, with or without a unit: `8388608`, `8MiB`, `2 GB`.
pub fn bytes(raw: &Raw, range: RangeInclusive<u64>) -> Result<u64, InvalidValue> {
    let Raw::Text(text) = raw else { return number(raw, range) };
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (amount, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => {
            let remedy = "write a number of bytes, or one with a unit such as 512MiB or 2GB";
            return Err(invalid("has an unknown unit", remedy));
        }
    };
    let amount = number(&Raw::Text(amount.to_owned()), 0..=u64::MAX)?;
    let total = amount.saturating_mul(factor);
    if range.contains(&total) && total <= i64::MAX as u64 {
        return Ok(total);
    }
    let remedy = format!("write {} bytes or more, and fewer than 8 EiB", range.start());
    Err(invalid("is out of range", &remedy))
}

/// A duration: seconds, or a number with a unit such as `90s`, `5m`, `12h`, `7d`.
pub fn duration(raw: &Raw) -> Result<Duration, InvalidValue> {
    let remedy = "write a number with ms, s, m, h, d or w, such as 12h; seconds need no unit";
    let text = match raw {
        Raw::Integer(number) => number.to_string(),
        raw => text(raw).map_err(|_| invalid("is not a duration", remedy))?,
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (amount, unit) = text.split_at(digits);
    let unit_ms: u64 = match unit.trim() {
        "ms" => 1,
        "" | "s" | "sec" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => return Err(invalid("has an unknown unit", remedy)),
    };
    let amount: u64 = amount
        .replace('_', "")
        .parse()
        .map_err(|_| invalid("does not begin with a whole number", remedy))?;
    // Ten years: far from where adding to a clock overflows.
    let max_ms = 10 * 365 * 86_400_000;
    Ok(Duration::from_millis(amount.saturating_mul(unit_ms).min(max_ms)))
}

pub fn switch(raw: &Raw) -> Result<bool, InvalidValue> {
    let Raw::Text(text) = raw else {
        return Err(invalid("is neither true nor false", "write true or false"));
    };
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(invalid("is neither true nor false", "write true or false")),
    }
}

/// A text that is not empty.
pub fn text(raw: &Raw) -> Result<String, InvalidValue> {
    match raw {
        Raw::Text(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Raw::Text(_) => Err(invalid("is empty", "give it a value or leave it out")),
        _ => Err(invalid("is not text", "write it in quotes")),
    }
}

/// Several texts: an array, a repeated flag, or one text with commas.
pub fn list(raw: &Raw) -> Result<Vec<String>, InvalidValue> {
    items(raw, ',', "http://localhost:3000")
}

/// Names of this machine. `*` would let every web site in that resolves its own name to this address.
pub fn hosts(raw: &Raw) -> Result<Vec<String>, InvalidValue> {
    let hosts = items(raw, ',', "nas.local")?;
    if hosts.iter().any(|host| host == "*") {
        Err(invalid("has a `*`", "name each host by which clients call this machine"))
    } else {
        Ok(hosts)
    }
}

/// Several texts with another `separator` in one text, and an `example` for the remedy.
pub fn items(raw: &Raw, separator: char, example: &str) -> Result<Vec<String>, InvalidValue> {
    let items = match raw {
        Raw::List(items) => items.clone(),
        Raw::Text(text) => vec![text.clone()],
        _ => {
            let remedy = format!("write an array of texts, such as [{example:?}]");
            return Err(invalid("is not a list", &remedy));
        }
    };
    let items = items.iter().flat_map(|item| item.split(separator)).map(str::trim);
    Ok(items.filter(|item| !item.is_empty()).map(str::to_owned).collect())
}

pub fn choice<T: FromStr>(raw: &Raw, words: &[&str]) -> Result<T, InvalidValue> {
    let remedy = format!("choose one of {}", words.join(", "));
    let text = text(raw)?;
    text.parse().map_err(|_| invalid("is not known", &remedy))
}

pub fn invalid(problem: &str, remedy: &str) -> InvalidValue {
    InvalidValue { problem: problem.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    #[test]
    fn numbers_mean_the_same_in_every_layer() {
        assert_eq!(number(&raw("8_192"), 1..=10_000), Ok(8192));
        assert_eq!(number(&Raw::Integer(8192), 1..=10_000), Ok(8192));
        for wrong in [raw("-1"), raw("1.5"), Raw::Integer(-1), Raw::Other("boolean"), raw("99999")]
        {
            assert!(number(&wrong, 1..=10_000).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_context_is_a_number_or_chosen() {
        assert_eq!(context(&raw("auto")), Ok(ContextChoice::Auto));
        assert_eq!(context(&raw(" Auto ")), Ok(ContextChoice::Auto));
        assert_eq!(context(&raw("2_048")), Ok(ContextChoice::Tokens(2_048)));
        assert_eq!(context(&Raw::Integer(64)), Ok(ContextChoice::Tokens(64)));
        for wrong in [raw("automatic"), raw(""), raw("63"), Raw::Integer(0), Raw::Other("boolean")]
        {
            let invalid = context(&wrong).unwrap_err();
            assert_eq!(invalid.remedy, "write \"auto\", or a whole number from 64 to 16777216");
        }
    }

    #[test]
    fn layers_are_a_number_or_chosen() {
        assert_eq!(gpu_layers(&raw("AUTO")), Ok(GpuLayers::Auto));
        assert_eq!(gpu_layers(&Raw::Integer(0)), Ok(GpuLayers::Count(0)));
        assert_eq!(gpu_layers(&raw("99")), Ok(GpuLayers::Count(99)));
        let invalid = gpu_layers(&raw("all")).unwrap_err();
        assert_eq!(invalid.remedy, "write \"auto\", or a whole number from 0 to 10000");
    }

    #[test]
    fn a_split_has_whole_parts_that_are_not_all_nothing() {
        assert_eq!(parts(&raw("3, 1")), Ok(vec![3, 1]));
        assert_eq!(parts(&Raw::List(vec!["0".into(), "1".into()])), Ok(vec![0, 1]));
        assert_eq!(parts(&raw("")), Ok(vec![]));
        for wrong in [raw("0,0"), raw("0.5,0.5"), raw("-1,2"), raw("a"), Raw::Other("table")] {
            assert!(parts(&wrong).unwrap_err().remedy.contains("3,1"), "{wrong} was accepted");
        }
    }

    #[test]
    fn bytes_take_a_unit() {
        assert_eq!(bytes(&raw("8MiB"), 0..=u64::MAX), Ok(8 << 20));
        assert_eq!(bytes(&raw("2 GB"), 0..=u64::MAX), Ok(2_000_000_000));
        assert_eq!(bytes(&Raw::Integer(7), 0..=u64::MAX), Ok(7));
        for wrong in ["MiB", "8 parsecs", "99999999999999999999", "99999999 TiB"] {
            assert!(bytes(&raw(wrong), 0..=u64::MAX).is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn durations_have_units() {
        let secs = |text: &str| duration(&raw(text)).map(|span| span.as_secs());
        assert_eq!(secs("300"), Ok(300));
        assert_eq!(secs("30 m"), Ok(1_800));
        assert_eq!(secs("7d"), Ok(7 * 86_400));
        assert_eq!(duration(&Raw::Integer(7)), Ok(Duration::from_secs(7)));
        assert_eq!(duration(&raw("1500ms")), Ok(Duration::from_millis(1_500)));
        for wrong in ["", "-1d", "1.5h", "7 fortnights", "m"] {
            assert!(secs(wrong).is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn a_list_is_an_array_or_has_commas() {
        assert_eq!(list(&raw("a, b,,")).unwrap(), ["a", "b"]);
        assert_eq!(list(&Raw::List(vec!["a".into(), "b,c".into()])).unwrap(), ["a", "b", "c"]);
    }
}
