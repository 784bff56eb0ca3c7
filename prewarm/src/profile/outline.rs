//! The TOML file of a profile, checked; the files that it names are not read.
//!
//! - An unknown field is an error with its line.
//! - A segment has exactly one source.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hob_slots::content::Accepted;
use hob_slots::reanchor::Beyond;
use hob_slots::{Layer, TtlClass};
use serde::de::{Error as _, IntoDeserializer};
use serde::{Deserialize, Deserializer};

use super::Profile;
use super::error::ProfileError;
use super::quotation::unquoted;
use super::reuse_limits::ReuseLimits;

const MAX_SEGMENTS: usize = 64;
const MAX_KEY_BYTES: usize = 100;

/// A profile without the content of its files.
pub type Outline = Profile<OutlineSegment>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineSegment {
    pub layer: Layer,
    pub key: String,
    /// Whether it is part of the prefix, if everything before it is.
    pub stable: bool,
    pub source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Written in the profile itself.
    Text(String),
    /// A text file, relative to the profile's directory or absolute.
    File(PathBuf),
    /// A JSON file with an array of tools.
    Tools(PathBuf),
}

impl Outline {
    /// Parses and checks the text of a profile's file.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count();
            ProfileError::Toml { line, problem: unquoted(&error.message().replace('\n', " ")) }
        })?;
        match raw.segment.len() {
            0 => return Err(ProfileError::Nothing),
            got if got > MAX_SEGMENTS => {
                return Err(ProfileError::TooMany { got, max: MAX_SEGMENTS });
            }
            _ => {}
        }
        let mut raw = raw;
        let checked =
            std::mem::take(&mut raw.segment).into_iter().enumerate().map(|(at, segment)| {
                let number = at + 1;
                segment.checked(number).map_err(|problem| ProfileError::Segment { number, problem })
            });
        let segments = checked.collect::<Result<_, _>>()?;
        let Raw { ttl, sampling, budget, reuse, reuse_limits, beyond, draft, .. } = raw;
        Ok(Self { ttl, sampling, budget, reuse, reuse_limits, beyond, draft, segments })
    }

    /// The files that it names.
    pub fn files(&self, directory: &Path) -> Vec<PathBuf> {
        let file = |segment: &OutlineSegment| match &segment.source {
            Source::Text(_) => None,
            Source::File(path) | Source::Tools(path) => Some(directory.join(path)),
        };
        self.segments.iter().filter_map(file).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default = "extended")]
    ttl: TtlClass,
    #[serde(default)]
    sampling: BTreeMap<String, f64>,
    budget: Option<NonZeroUsize>,
    reuse: Option<Accepted>,
    #[serde(default)]
    reuse_limits: ReuseLimits,
    beyond: Option<Beyond>,
    draft: Option<bool>,
    #[serde(default)]
    segment: Vec<RawSegment>,
}

fn extended() -> TtlClass {
    TtlClass::Extended
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSegment {
    #[serde(deserialize_with = "layer_before_messages")]
    layer: Layer,
    key: Option<String>,
    text: Option<String>,
    file: Option<PathBuf>,
    tools: Option<PathBuf>,
    stable: Option<bool>,
}

/// A layer that precedes the messages.
fn layer_before_messages<'de, D: Deserializer<'de>>(layer: D) -> Result<Layer, D::Error> {
    const LAYERS: &[&str] =
        &["axioms", "identity", "rules", "capabilities", "context", "memories", "affect"];
    let name = String::deserialize(layer)?;
    if LAYERS.contains(&name.as_str()) {
        Layer::deserialize(name.into_deserializer())
    } else {
        Err(D::Error::unknown_variant(&name, LAYERS))
    }
}

impl RawSegment {
    fn checked(self, number: usize) -> Result<OutlineSegment, &'static str> {
        let source = match (self.text, self.file, self.tools) {
            (Some(text), None, None) if text.trim().is_empty() => {
                return Err("its `text` is empty: fill it, or leave the segment out");
            }
            (Some(text), None, None) => Source::Text(text),
            (None, Some(path), None) => Source::File(path),
            (None, None, Some(path)) => Source::Tools(path),
            (None, None, None) => return Err("give it a `text`, a `file` or `tools`"),
            _ => return Err("it has several sources: keep one of `text`, `file` and `tools`"),
        };
        let stable = self.stable.unwrap_or(true);
        if !stable && matches!(source, Source::Tools(_)) {
            return Err("tools are always part of the prefix: \
                        leave `stable = false` out");
        }
        let key = match (self.key, &source) {
            (Some(key), _) => key,
            (None, Source::Text(_)) => format!("segment {number}"),
            (None, Source::File(path) | Source::Tools(path)) => match path.file_name() {
                Some(name) => format!("file:{}", name.to_string_lossy()),
                None => return Err("its path names no file"),
            },
        };
        if key.is_empty() || key.len() > MAX_KEY_BYTES || key.chars().any(char::is_control) {
            return Err("its key must have 1 to 100 bytes and no control characters: \
                        give it another `key`");
        }
        Ok(OutlineSegment { layer: self.layer, key, stable, source })
    }
}
