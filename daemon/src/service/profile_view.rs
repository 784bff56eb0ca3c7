//! What a profile costs, segment by segment, and what of it is warm.
//!
//! - A segment has the tokens that the prompt gets by it; several files of tools share theirs by
//!   their length. What stands in the tail is counted by itself.
//! - Warm is what the prefix has in common with one that is: KV is shared up to the first token that
//!   differs, whichever profile it was computed for.

use std::collections::VecDeque;
use std::path::Path;

use hob_prewarm::profile::{Content, Outline, OutlineSegment, Profile, ProfileSegment, Source};
use hob_prewarm::{PrefixState, ProfileName};
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token, TtlClass};

use super::Service;
use super::preamble::Preamble;
use super::profile_files::{OnDisk, written_path};
use super::profile_place::is_editable;
use crate::error::ApiError;
use crate::explain::volatile::{Volatile, volatile};

/// A profile for whoever edits it.
#[derive(Clone, Debug)]
pub struct ProfileView {
    /// How long its prefix is kept on disk.
    pub ttl: TtlClass,
    /// Its parts, in order.
    pub segments: Vec<SegmentView>,
    /// Tokens of its prefix; `None` when it cannot be used.
    pub tokens: Option<usize>,
    /// How many of them would have to be computed now.
    pub computed_tokens: Option<usize>,
}

/// A part of it.
#[derive(Clone, Debug)]
pub struct SegmentView {
    /// What it is for.
    pub layer: Layer,
    /// What it is called.
    pub key: String,
    /// What its author promises.
    pub stable: bool,
    /// `text`, `file` or `tools`.
    pub source: &'static str,
    /// Its file, as it is written in the profile.
    pub path: Option<String>,
    /// Whether that may be written from here.
    pub is_editable: bool,
    /// What it holds; `None` when its file cannot be read.
    pub content: Option<String>,
    /// Whether it is part of the prefix.
    pub in_prefix: bool,
    /// What it adds to a prompt.
    pub tokens: usize,
    /// Whether all of it is warm.
    pub is_warm: bool,
    /// Words of a part that is said to stay and will not, in bytes of `content`.
    pub volatile: Vec<Volatile>,
}

/// What a segment takes of the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    tokens: usize,
    /// Where it ends in the prefix.
    end: usize,
}

impl Service {
    /// A profile that is read, with what it costs.
    pub(super) fn view(
        &self,
        preamble: &Preamble,
        outline: &Outline,
        there: &Shown<'_>,
    ) -> Result<ProfileView, ApiError> {
        let shared = self.shared_of(preamble)?;
        let warm = self.warm_tokens(&shared.tokens);
        let count = |text: &str| self.engine().model().tokenize(text, false, false).len();
        let shares = shares(&preamble.profile, &shared.segments, count);
        let mut view = outlined(outline, there);
        let (prefix, _) = preamble.profile.parts();
        for ((segment, read), share) in
            view.segments.iter_mut().zip(&preamble.profile.segments).zip(shares)
        {
            segment.in_prefix = prefix.iter().any(|part| std::ptr::eq(*part, read));
            segment.tokens = share.tokens;
            segment.is_warm = segment.in_prefix && share.end <= warm;
        }
        view.tokens = Some(shared.tokens.len());
        view.computed_tokens = Some(shared.tokens.len() - warm);
        Ok(view)
    }

    /// How many of these tokens are the beginning of a prefix that is warm.
    fn warm_tokens(&self, tokens: &[Token]) -> usize {
        let prefixes = self.warm_status().prefixes.into_iter();
        let warm = prefixes.filter(|(_, prefix)| prefix.state == PrefixState::Warm);
        let common = warm.filter_map(|(name, _)| {
            let other = self.prefix_tokens(&name).ok()?;
            Some(tokens.iter().zip(&other).take_while(|(a, b)| a == b).count())
        });
        common.max().unwrap_or(0)
    }
}

/// What stands in a profile's files.
pub(super) struct Shown<'a> {
    /// Where they lie.
    pub directory: &'a Path,
    /// What was read.
    pub there: &'a OnDisk,
    /// Texts that take the place of files, by segment.
    pub instead: Vec<Option<String>>,
}

/// As far as a profile is known without its model.
pub(super) fn outlined(outline: &Outline, shown: &Shown<'_>) -> ProfileView {
    let segments = outline.segments.iter().enumerate();
    let segments = segments.map(|(at, segment)| segment_view(segment, at, shown)).collect();
    ProfileView { ttl: outline.ttl, segments, tokens: None, computed_tokens: None }
}

fn segment_view(segment: &OutlineSegment, at: usize, shown: &Shown<'_>) -> SegmentView {
    let path = written_path(&segment.source);
    let source = match &segment.source {
        Source::Text(_) => "text",
        Source::File(_) => "file",
        Source::Tools(_) => "tools",
    };
    let content = match &segment.source {
        Source::Text(text) => Some(text.clone()),
        Source::File(_) | Source::Tools(_) => {
            let instead = shown.instead.get(at).cloned().flatten();
            instead.or_else(|| shown.there.files.get(path.as_ref()?)?.clone())
        }
    };
    let content =
        content.map(|text| text.trim_start_matches(['\u{feff}', '\r', '\n']).trim_end().to_owned());
    let found = content.as_deref().filter(|_| segment.stable).map(volatile);
    SegmentView {
        layer: segment.layer,
        key: segment.key.clone(),
        stable: segment.stable,
        source,
        is_editable: path.as_ref().is_none_or(|path| is_editable(shown.directory, path)),
        path,
        content,
        in_prefix: false,
        tokens: 0,
        is_warm: false,
        volatile: found.unwrap_or_default(),
    }
}

/// What each segment takes of a prefix with these parts. `count`: the tokens of a text by itself.
fn shares(profile: &Profile, parts: &[SegmentRef], count: impl Fn(&str) -> usize) -> Vec<Share> {
    let mut begin = 0;
    let ranges = parts.iter().map(|part| {
        let end = part.end as usize;
        let share = Share { tokens: end - begin, end };
        begin = end;
        (part, share)
    });
    let mut ranges: VecDeque<(&SegmentRef, Share)> = ranges.collect();
    let mut take = |layer: Layer, key: &str| {
        let is = |(part, _): &(&SegmentRef, Share)| part.layer == layer && part.key == key;
        let at = ranges.iter().position(is)?;
        ranges.remove(at).map(|(_, share)| share)
    };
    let text_of = |segment: &ProfileSegment| match &segment.content {
        Content::Text(text) => text.clone(),
        Content::Tools(tools) => serde_json::Value::from(tools.clone()).to_string(),
    };
    let is_tools = |segment: &&ProfileSegment| matches!(segment.content, Content::Tools(_));
    let tools = take(Layer::Capabilities, super::rendering::TOOLS);
    let all: usize = profile.segments.iter().filter(is_tools).map(|it| count(&text_of(it))).sum();
    let share = |segment: &ProfileSegment| {
        let own = count(&text_of(segment));
        let alone = Share { tokens: own, end: usize::MAX };
        match (&segment.content, tools) {
            (Content::Tools(_), Some(tools)) => {
                Share { tokens: tools.tokens * own / all.max(1), end: tools.end }
            }
            (Content::Tools(_), None) => alone,
            (Content::Text(_), _) => take(segment.layer, &segment.key).unwrap_or(alone),
        }
    };
    profile.segments.iter().map(share).collect()
}

/// The name of a profile, from a path.
///
/// # Errors
/// When it cannot be one.
pub(super) fn named(name: &str) -> Result<ProfileName, ApiError> {
    name.parse()
        .map_err(|error: hob_prewarm::ProfileNameError| ApiError::field("name", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(end: u32, layer: Layer, key: &str) -> SegmentRef {
        SegmentRef { end, layer, key: key.to_owned() }
    }

    fn segment(layer: Layer, key: &str, content: Content) -> ProfileSegment {
        ProfileSegment { layer, key: key.to_owned(), stable: true, content }
    }

    #[test]
    fn a_segment_has_what_the_prompt_gets_by_it() {
        let text = |text: &str| Content::Text(text.to_owned());
        let tools = |name: &str| Content::Tools(vec![serde_json::json!(name)]);
        let profile = Profile {
            ttl: TtlClass::Extended,
            segments: vec![
                segment(Layer::Identity, "ember", text("You are Ember.")),
                segment(Layer::Capabilities, "file:a.json", tools("a")),
                segment(Layer::Capabilities, "file:b.json", tools("abcdef")),
                segment(Layer::Context, "tail", text("now")),
            ],
        };
        // The template puts the tools in front.
        let parts = [part(40, Layer::Capabilities, "tools"), part(58, Layer::Identity, "ember")];
        let shares = shares(&profile, &parts, str::len);
        assert_eq!(shares[0], Share { tokens: 18, end: 58 });
        assert_eq!(shares[1], Share { tokens: 40 * 5 / 15, end: 40 });
        assert_eq!(shares[2], Share { tokens: 40 * 10 / 15, end: 40 });
        assert_eq!(shares[3].tokens, 3);
    }
}
