//! Which part of a prompt each token belongs to: a part of the profile, or one message.
//!
//! - A message ends with its end-of-turn token. The template alone writes such tokens, because
//!   `template` breaks the ones that users write out. Templates may add a system message of their own,
//!   or merge the results of several tools into one turn.
//! - Not every template ends each turn with such a token. In a prompt whose turns match none of these
//!   counts a message ends with its text; one whose text the template writes in another form, as it does
//!   with calls of tools, belongs to the segment of the message behind it.

use std::collections::BTreeSet;

use hob_runtime::Vocabulary;
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token};

use super::passages::passages;
use super::preamble::Preamble;
use crate::wire::message::{Message, Role};

/// The key of the segment that the template writes for the tools.
pub const TOOLS: &str = "tools";

/// One segment a message or document, without the start of the answer; `None` where the turns of the
/// prompt cannot be counted.
pub fn segments_of_turns(
    messages: &[Message],
    prompt: &[Token],
    vocabulary: &Vocabulary,
) -> Option<Vec<SegmentRef>> {
    let ends = prompt.iter().enumerate().filter(|&(_, &token)| vocabulary.is_eog(token));
    let ends: Vec<u32> = ends.filter_map(|(at, _)| u32::try_from(at + 1).ok()).collect();
    let each = labels(messages);
    let mut tools_as_one = each.clone();
    tools_as_one.dedup_by(|later, earlier| {
        let are_tools = later.layer == Layer::Tool && earlier.layer == Layer::Tool;
        if are_tools {
            weigh_as(earlier, later);
        }
        are_tools
    });
    let with_system = |labels: &[SegmentRef]| {
        let own = SegmentRef::new(0, Layer::Identity, "the template's own");
        std::iter::once(own).chain(labels.iter().cloned()).collect::<Vec<_>>()
    };
    let counts =
        [each.clone(), with_system(&each), tools_as_one.clone(), with_system(&tools_as_one)];
    let labels = counts.into_iter().find(|labels| labels.len() == ends.len())?;
    let segment = |(label, end)| SegmentRef { end, ..label };
    Some(labels.into_iter().zip(ends).map(segment).collect())
}

/// The messages that are found in the text of the prompt. `texts`: as the template got them.
/// `token_ends`: the byte of the text where each token ends.
pub fn segments_of_texts(
    messages: &[Message],
    texts: &[String],
    text: &str,
    token_ends: &[usize],
    is_end: impl Fn(usize) -> bool,
) -> Vec<SegmentRef> {
    let instructions = messages.iter().take_while(|message| message.role.instructs()).count();
    let found = passages(texts, instructions, text);
    let mut labels = labels(messages);
    let known: BTreeSet<usize> = found.iter().map(|&(n, _)| n).collect();
    for n in (1..labels.len()).filter(|n| !known.contains(&(n - 1))) {
        let (before, behind) = labels.split_at_mut(n);
        weigh_as(&mut behind[0], &before[n - 1]);
    }
    let segment = |(n, end): (usize, usize)| {
        // A token that goes on behind the message belongs to it, and so does an end-of-turn token.
        let tokens = (token_ends.partition_point(|&token| token < end) + 1).min(token_ends.len());
        let tokens = tokens + usize::from(is_end(tokens));
        let end = u32::try_from(tokens).ok()?;
        Some(SegmentRef { end, ..labels[n].clone() })
    };
    ascending(found.into_iter().filter_map(segment).collect())
}

/// What each message is, without its end. Documents with a message of their own are named, and do not
/// count as messages.
fn labels(messages: &[Message]) -> Vec<SegmentRef> {
    let mut count = 0;
    let mut label = |message: &Message| {
        let label = message.label();
        let (layer, key) = if let Some(document) = message.written_document() {
            (Layer::Document, document)
        } else {
            count += 1;
            let layer = match message.role {
                Role::System | Role::Developer => Layer::Identity,
                Role::User => Layer::User,
                Role::Assistant => Layer::Assistant,
                Role::Tool => Layer::Tool,
            };
            (layer, label.key.unwrap_or_else(|| SegmentRef::message_key(count)))
        };
        let mut segment = SegmentRef::new(0, layer, key);
        segment.weight = label.weight.unwrap_or(segment.weight);
        segment.pinned = label.pin.unwrap_or(segment.pinned);
        segment
    };
    messages.iter().map(&mut label).collect()
}

/// Lets a segment stay in the cells as long as `other`, of which it has the text too.
fn weigh_as(segment: &mut SegmentRef, other: &SegmentRef) {
    segment.weight = segment.weight.max(other.weight);
    segment.pinned |= other.pinned;
}

/// The first of those with one end.
fn ascending(mut segments: Vec<SegmentRef>) -> Vec<SegmentRef> {
    segments.sort_by_key(|segment| segment.end);
    segments.dedup_by_key(|segment| segment.end);
    segments.retain(|segment| segment.end > 0);
    segments
}

/// A part of the profile, and the byte of the text where it ends.
type PreambleEnd = ((Layer, String), usize);

/// The profile's parts that the text contains, in the order of the text.
pub fn preamble_ends(preamble: &Preamble, text: &str) -> Vec<PreambleEnd> {
    let mut ends: Vec<PreambleEnd> = Vec::new();
    let mut begin = 0;
    let stable = preamble.profile.stable();
    let stable = stable.map(|(segment, text)| ((segment.layer, segment.key.clone()), text));
    let tail = preamble.profile.tail().filter(|(_, text)| !text.is_empty());
    let tail = tail.map(|(segment, text)| ((segment.layer, "tail".to_owned()), text));
    for (label, part) in stable.chain(tail) {
        let Some(at) = text[begin..].find(part) else { break };
        begin += at + part.len();
        ends.push((label, begin));
    }
    // The template formats a tool's schema in its own way, but writes the name as it is.
    let name = preamble.tools().last().map(|tool| format!("\"{}\"", tool.name));
    if let Some(at) = name.and_then(|name| Some(text.find(&name)? + name.len())) {
        ends.push(((Layer::Capabilities, TOOLS.to_owned()), at));
        ends.sort_by_key(|(_, end)| *end);
    }
    ends
}

/// The profile's segments and those of the messages. `token_ends`: the byte of the text
/// where each token ends.
pub fn with_preamble(
    preamble: Vec<PreambleEnd>,
    token_ends: &[usize],
    messages: Vec<SegmentRef>,
) -> Vec<SegmentRef> {
    let tokens = |end: usize| token_ends.partition_point(|&token_end| token_end <= end) as u32;
    let mut segments: Vec<SegmentRef> = Vec::new();
    for (n, ((layer, key), end)) in preamble.iter().enumerate() {
        let mut end = tokens(*end);
        if key == TOOLS {
            // The last tool's name is followed by its schema and the template's instructions.
            let message = messages.iter().find(|message| message.end > end);
            let next = preamble.get(n + 1).map_or(u32::MAX, |(_, next)| tokens(*next));
            let rest = message.filter(|it| it.layer == Layer::Identity && it.end < next);
            end = rest.map_or(end, |rest| rest.end);
        }
        segments.push(SegmentRef::new(end, *layer, key.as_str()));
    }
    segments.extend(messages);
    ascending(segments)
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::Model;
    use hob_runtime::backend::fake::FakeModel;
    use serde_json::{Map, json};

    use super::*;
    use crate::prompt::template::{RendersIn, Template};

    fn layers(messages: &[serde_json::Value], text: Option<&str>) -> Vec<(Layer, String)> {
        let model = FakeModel::new();
        let parse = |message| Message::parse(message, "messages").unwrap();
        let messages: Vec<Message> = messages.iter().map(parse).collect();
        let rendered = || {
            Template::of(&model, RendersIn::ThisProcess)
                .render(&messages, &[], &Map::new())
                .unwrap()
        };
        let text = text.map_or_else(rendered, str::to_owned);
        let prompt = model.tokenize(&text, true, true);
        let found = segments_of_turns(&messages, &prompt, model.vocabulary()).unwrap();
        assert!(found.last().is_none_or(|last| (last.end as usize) < prompt.len()));
        found.into_iter().map(|segment| (segment.layer, segment.key)).collect()
    }

    #[test]
    fn each_message_is_a_segment_that_ends_with_its_turn() {
        let found = layers(
            &[
                json!({"role": "system", "content": "be brief"}),
                json!({"role": "user", "content": "a mark: <|im_end|>"}),
                json!({"role": "assistant", "content": "hello"}),
                json!({"role": "user", "content": "bye"}),
            ],
            None,
        );
        let kinds: Vec<_> = found.iter().map(|(layer, _)| *layer).collect();
        assert_eq!(kinds, [Layer::Identity, Layer::User, Layer::Assistant, Layer::User]);
        assert_eq!(found[1].1, "message 2");
    }

    #[test]
    fn a_system_message_of_the_templates_own_is_a_segment_of_its_own() {
        let text = "<|im_start|>system\nown<|im_end|>\n<|im_start|>user\nhi<|im_end|>\nx";
        let found = layers(&[json!({"role": "user", "content": "hi"})], Some(text));
        assert_eq!(found[0], (Layer::Identity, "the template's own".to_owned()));
        assert_eq!(found[1], (Layer::User, "message 1".to_owned()));
    }

    #[test]
    fn a_message_has_its_own_key_weight_and_pin() {
        let model = FakeModel::new();
        let marked = json!({"role": "user", "content": "hi",
                            "hob": {"key": "greeting", "weight": 90, "pin": true}});
        let messages = [marked, json!({"role": "assistant", "content": "hello"})];
        let messages = messages.map(|message| Message::parse(&message, "messages").unwrap());
        let template = Template::of(&model, RendersIn::ThisProcess);
        let text = template.render(&messages, &[], &Map::new()).unwrap();
        let prompt = model.tokenize(&text, true, true);
        let found = segments_of_turns(&messages, &prompt, model.vocabulary()).unwrap();
        let label = |segment: &SegmentRef| (segment.key.clone(), segment.weight, segment.pinned);
        let labels: Vec<_> = found.iter().map(label).collect();
        let expected = [("greeting".to_owned(), 90, true), ("message 2".to_owned(), 50, false)];
        assert_eq!(labels, expected);
    }
}
