//! What each segment of a profile costs, and which are warm.
//!
//! - A segment counts the tokens that it adds to the prompt. Several tool files share the tokens of
//!   the tools in proportion to their length. Segments of the tail are tokenized alone.
//! - A segment is warm if it ends within the common prefix of its profile and any warm profile: KV
//!   is shared up to the first token that differs.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use hob_prewarm::profile::{Content, Outline, OutlineSegment, Profile, ProfileSegment, Source};
use hob_prewarm::{PrefixName, PrefixState};
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token, TtlClass, common_prefix};

use super::Profiles;
use super::files::{OnDisk, written_path};
use super::place::is_editable;
use crate::error::ApiError;
use crate::explain::volatile::{Volatile, volatile};
use crate::prompt::Preamble;
use crate::prompt::segments::TOOLS;

/// A profile as the editor shows it.
#[derive(Clone, Debug)]
pub struct ProfileView {
    pub ttl: TtlClass,
    /// Parameters of its answers.
    pub sampling: BTreeMap<String, f64>,
    pub segments: Vec<SegmentView>,
    /// Tokens of its prefix; `None` when it cannot be used.
    pub tokens: Option<usize>,
    /// Tokens that a prewarm would compute now.
    pub computed_tokens: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct SegmentView {
    pub layer: Layer,
    pub key: String,
    /// Whether its author promises the same text in every request.
    pub stable: bool,
    /// `text`, `file` or `tools`.
    pub source: &'static str,
    /// As the profile spells it.
    pub path: Option<String>,
    /// Whether an edit may write that file.
    pub is_editable: bool,
    /// `None` when its file is unreadable.
    pub content: Option<String>,
    pub in_prefix: bool,
    pub tokens: usize,
    pub is_warm: bool,
    /// Words of a stable segment that will change, as byte ranges of `content`.
    pub volatile: Vec<Volatile>,
}

/// A segment's part of the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    tokens: usize,
    /// The token of the prefix where it ends.
    end: usize,
}

impl Profiles {
    /// The view of a profile that loads.
    pub(super) fn view(
        &self,
        preamble: &Preamble,
        outline: &Outline,
        files: &ViewFiles<'_>,
    ) -> Result<ProfileView, ApiError> {
        let shared = self.shared_prefix(preamble)?;
        let warm = self.warm_tokens(&shared.tokens);
        let count = |text: &str| self.renderer().model().tokenize(text, false, false).len();
        let shares = shares(&preamble.profile, &shared.segments, count);
        let mut view = outline_view(outline, files);
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

    /// The longest common prefix with a warm profile's prefix.
    fn warm_tokens(&self, tokens: &[Token]) -> usize {
        let prefixes = self.warm_status().prefixes.into_iter();
        let warm = prefixes.filter(|(_, prefix)| prefix.state == PrefixState::Warm);
        let common = warm.filter_map(|(name, _)| {
            let PrefixName::Profile(name) = name else { return None };
            let other = self.prefix_tokens(&name).ok()?;
            Some(common_prefix(tokens, &other))
        });
        common.max().unwrap_or(0)
    }
}

/// Where a view gets the texts of segments from.
pub(super) struct ViewFiles<'a> {
    pub directory: &'a Path,
    pub on_disk: &'a OnDisk,
    /// By segment; they replace the files on disk.
    pub new_texts: Vec<Option<String>>,
}

/// The view of a profile that cannot be rendered: no tokens.
pub(super) fn outline_view(outline: &Outline, files: &ViewFiles<'_>) -> ProfileView {
    let segments = outline.segments.iter().enumerate();
    let segments = segments.map(|(at, segment)| segment_view(segment, at, files)).collect();
    let (ttl, sampling) = (outline.ttl, outline.sampling.clone());
    ProfileView { ttl, sampling, segments, tokens: None, computed_tokens: None }
}

fn segment_view(segment: &OutlineSegment, at: usize, files: &ViewFiles<'_>) -> SegmentView {
    let path = written_path(&segment.source);
    let source = match &segment.source {
        Source::Text(_) => "text",
        Source::File(_) => "file",
        Source::Tools(_) => "tools",
    };
    let content = match &segment.source {
        Source::Text(text) => Some(text.clone()),
        Source::File(_) | Source::Tools(_) => {
            let new_text = files.new_texts.get(at).cloned().flatten();
            new_text.or_else(|| files.on_disk.files.get(path.as_ref()?)?.clone())
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
        is_editable: path.as_ref().is_none_or(|path| is_editable(files.directory, path)),
        path,
        content,
        in_prefix: false,
        tokens: 0,
        is_warm: false,
        volatile: found.unwrap_or_default(),
    }
}

/// Each segment's share of a prefix with these parts. `count`: the tokens of a text alone.
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
    let tools = take(Layer::Capabilities, TOOLS);
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

#[cfg(test)]
mod tests {
    use hob_prewarm::profile::ReuseLimits;

    use super::*;

    fn part(end: u32, layer: Layer, key: &str) -> SegmentRef {
        SegmentRef::new(end, layer, key)
    }

    fn segment(layer: Layer, key: &str, content: Content) -> ProfileSegment {
        ProfileSegment { layer, key: key.to_owned(), stable: true, content }
    }

    #[test]
    fn a_segment_counts_the_tokens_that_it_adds_to_the_prompt() {
        let text = |text: &str| Content::Text(text.to_owned());
        let tools = |name: &str| Content::Tools(vec![serde_json::json!(name)]);
        let profile = Profile {
            ttl: TtlClass::Extended,
            sampling: BTreeMap::new(),
            budget: None,
            reuse: None,
            reuse_limits: ReuseLimits::default(),
            beyond: None,
            draft: None,
            segments: vec![
                segment(Layer::Identity, "ember", text("You are Ember.")),
                segment(Layer::Capabilities, "file:a.json", tools("a")),
                segment(Layer::Capabilities, "file:b.json", tools("abcdef")),
                segment(Layer::Context, "tail", text("now")),
            ],
        };
        // The template writes the tools first.
        let parts = [part(40, Layer::Capabilities, "tools"), part(58, Layer::Identity, "ember")];
        let shares = shares(&profile, &parts, str::len);
        assert_eq!(shares[0], Share { tokens: 18, end: 58 });
        assert_eq!(shares[1], Share { tokens: 40 * 5 / 15, end: 40 });
        assert_eq!(shares[2], Share { tokens: 40 * 10 / 15, end: 40 });
        assert_eq!(shares[3].tokens, 3);
    }
}
