//! A profile: the first part of the prompts of one kind of conversation, as its author wrote it.
//!
//! Reading order: [`Outline`] (the TOML file, checked), `canonical` (tool schemas in one form),
//! [`Profile`] (an outline with its files read), and [`EditedProfile`] (one that an editor writes).
//!
//! - Pure: the caller passes the function that reads a file.
//! - Segments stay in the order of the file. Those from the first unstable one on are the *tail*:
//!   it follows the prefix, and may change with each request.
//! - The model's template places the tools, in the order in which they were declared.
//! - Equal files make equal profiles, whatever the order of keys in their schemas.

mod canonical;
mod edited;
mod error;
mod outline;
mod quotation;
mod reuse_limits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hob_slots::content::Accepted;
use hob_slots::reanchor::Beyond;
use hob_slots::{Layer, TtlClass};
use serde_json::Value;

pub use canonical::canonical;
pub use edited::{EditedProfile, EditedSegment, EditedSource};
pub use error::ProfileError;
pub use outline::{Outline, OutlineSegment, Source};
pub use quotation::unquoted;
pub use reuse_limits::ReuseLimits;

/// Maximum size of one file of a profile. A reader needs to read one byte more at most.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Separates two texts of a profile.
pub const SEPARATOR: &str = "\n\n";

/// A profile whose segments have their content, or, as an [`Outline`], their source.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile<S = ProfileSegment> {
    /// Lifetime of its prefix on disk.
    pub ttl: TtlClass,
    /// Parameters of its answers, by the name of the request's field. They are no part of the prefix, and not
    /// checked here.
    pub sampling: BTreeMap<String, f64>,
    /// Cells of a conversation with it, where the request names no budget. No part of the prefix.
    pub budget: Option<NonZeroUsize>,
    /// Which KV its answers may use, where the request does not say. No part of the prefix.
    pub reuse: Option<Accepted>,
    /// Beyond them, its answers use exact KV alone.
    pub reuse_limits: ReuseLimits,
    /// What becomes of a conversation with it that outgrows the context, where the request does not say.
    pub beyond: Option<Beyond>,
    /// Whether tokens of its answers may be guessed, where the request does not say. No part of the prefix.
    pub draft: Option<bool>,
    pub segments: Vec<S>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProfileSegment {
    pub layer: Layer,
    /// The author's name for it, or else the name of its file, or its number.
    pub key: String,
    /// Whether its author promises the same text in every request.
    pub stable: bool,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Without white space at the end.
    Text(String),
    /// In OpenAI's form, canonical.
    Tools(Vec<Value>),
}

impl Profile {
    /// Reads the files that the outline names. Relative paths start from `directory`.
    pub fn load(
        outline: &Outline,
        directory: &Path,
        mut read: impl FnMut(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, ProfileError> {
        let load = |segment: &OutlineSegment| {
            let content = match &segment.source {
                Source::Text(text) => Content::Text(trimmed(text)),
                Source::File(path) => {
                    let path = directory.join(path);
                    let text = text_of(&path, &mut read)?;
                    if segment.stable && text.trim().is_empty() {
                        return Err(ProfileError::EmptyFile { path });
                    }
                    Content::Text(trimmed(&text))
                }
                Source::Tools(path) => {
                    let path = directory.join(path);
                    Content::Tools(tools_of(&path, &text_of(&path, &mut read)?)?)
                }
            };
            let (layer, key, stable) = (segment.layer, segment.key.clone(), segment.stable);
            Ok(ProfileSegment { layer, key, stable, content })
        };
        let segments = outline.segments.iter().map(load).collect::<Result<_, _>>()?;
        let Outline { ttl, budget, reuse, reuse_limits, beyond, draft, .. } = *outline;
        let sampling = outline.sampling.clone();
        Ok(Self { ttl, sampling, budget, reuse, reuse_limits, beyond, draft, segments })
    }

    /// The text segments before the first unstable one.
    pub fn stable(&self) -> impl Iterator<Item = (&ProfileSegment, &str)> {
        self.segments[..self.tail_begins()].iter().filter_map(text)
    }

    pub fn stable_text(&self) -> String {
        joined(self.stable().map(|(_, text)| text))
    }

    /// The texts behind the prefix.
    pub fn tail(&self) -> impl Iterator<Item = (&ProfileSegment, &str)> {
        self.segments[self.tail_begins()..].iter().filter_map(text)
    }

    pub fn tail_text(&self) -> String {
        joined(self.tail().map(|(_, text)| text))
    }

    /// All tools: they are part of the prefix wherever they were declared.
    pub fn tools(&self) -> Vec<Value> {
        let tools = self.segments.iter().filter_map(|segment| match &segment.content {
            Content::Tools(tools) => Some(tools),
            Content::Text(_) => None,
        });
        tools.flatten().cloned().collect()
    }

    /// The first segment in which the prefixes of `self` and `before` differ.
    pub fn first_change<'a>(&'a self, before: &'a Self) -> Option<&'a ProfileSegment> {
        let ((new, _), (old, _)) = (self.parts(), before.parts());
        let same = new.iter().zip(&old).take_while(|(new, old)| new == old).count();
        new.get(same).or(old.get(same)).copied()
    }

    /// The segments of the prefix, and those of the tail.
    pub fn parts(&self) -> (Vec<&ProfileSegment>, Vec<&ProfileSegment>) {
        let begins = self.tail_begins();
        let numbered = self.segments.iter().enumerate();
        let (prefix, tail): (Vec<_>, Vec<_>) = numbered.partition(|(at, segment)| {
            matches!(segment.content, Content::Tools(_)) || *at < begins
        });
        let plain = |list: Vec<(usize, _)>| list.into_iter().map(|(_, segment)| segment).collect();
        (plain(prefix), plain(tail))
    }

    fn tail_begins(&self) -> usize {
        let unstable = self.segments.iter().position(|segment| !segment.stable);
        unstable.unwrap_or(self.segments.len())
    }
}

/// The texts, separated by blank lines.
pub fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts = texts.into_iter().filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(SEPARATOR)
}

fn text(segment: &ProfileSegment) -> Option<(&ProfileSegment, &str)> {
    match &segment.content {
        Content::Text(text) => Some((segment, text)),
        Content::Tools(_) => None,
    }
}

/// The text without the byte order mark and the line breaks that editors add.
fn trimmed(text: &str) -> String {
    text.trim_start_matches(['\u{feff}', '\r', '\n']).trim_end().to_owned()
}

fn text_of(
    path: &Path,
    read: &mut impl FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Result<String, ProfileError> {
    let path = || PathBuf::from(path);
    let bytes = read(&path()).map_err(|source| ProfileError::Io { path: path(), source })?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(ProfileError::TooLarge { path: path() });
    }
    String::from_utf8(bytes).map_err(|_| ProfileError::NotText { path: path() })
}

fn tools_of(path: &Path, text: &str) -> Result<Vec<Value>, ProfileError> {
    let path = || PathBuf::from(path);
    let value: Value = serde_json::from_str(text)
        .map_err(|error| ProfileError::NotJson { path: path(), problem: error.to_string() })?;
    match value {
        Value::Array(tools) if !tools.is_empty() && tools.iter().all(Value::is_object) => {
            Ok(tools.into_iter().map(canonical).collect())
        }
        _ => Err(ProfileError::NoTools { path: path() }),
    }
}
