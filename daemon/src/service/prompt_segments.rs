//! Which message each part of a prompt belongs to, so that what is kept can be shown as what it is.
//!
//! - A message ends with its end-of-turn token; blocks end there too. What users write out of such
//!   a token was broken before, so the ones in a prompt are the template's own.
//! - Templates add a system message of their own, or put the results of several tools into one turn.
//!   A prompt whose turns are counted in none of these ways has no segments: nothing is guessed.

use hob_runtime::Vocabulary;
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token};

use crate::wire::message::{Message, Role};

/// The segments of a prompt, without the beginning of the answer.
pub fn prompt_segments(
    messages: &[Message],
    prompt: &[Token],
    vocabulary: &Vocabulary,
) -> Vec<SegmentRef> {
    let ends = prompt.iter().enumerate().filter(|&(_, &token)| vocabulary.is_eog(token));
    let ends: Vec<u32> = ends.filter_map(|(at, _)| u32::try_from(at + 1).ok()).collect();
    let each: Vec<Label> = messages.iter().enumerate().map(label).collect();
    let mut tools_as_one = each.clone();
    tools_as_one.dedup_by_key(|(layer, key)| match layer {
        Layer::Tool => "tools".to_owned(),
        _ => key.clone(),
    });
    let with_system = |labels: &[Label]| {
        let own = (Layer::Identity, "the template's own".to_owned());
        std::iter::once(own).chain(labels.iter().cloned()).collect::<Vec<_>>()
    };
    let ways = [each.clone(), with_system(&each), tools_as_one.clone(), with_system(&tools_as_one)];
    let labels = ways.into_iter().find(|labels| labels.len() == ends.len()).unwrap_or_default();
    let segment = |((layer, key), end)| SegmentRef { end, layer, key };
    labels.into_iter().zip(ends).map(segment).collect()
}

type Label = (Layer, String);

fn label((at, message): (usize, &Message)) -> Label {
    let layer = match message.role {
        Role::System | Role::Developer => Layer::Identity,
        Role::User => Layer::User,
        Role::Assistant => Layer::Assistant,
        Role::Tool => Layer::Tool,
    };
    (layer, format!("message {}", at + 1))
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::Model;
    use hob_runtime::backend::fake::FakeModel;
    use serde_json::{Map, json};

    use super::*;
    use crate::service::prompt::Template;

    fn layers(messages: &[serde_json::Value], text: Option<&str>) -> Vec<(Layer, String)> {
        let model = FakeModel::new();
        let parse = |message| Message::parse(message, "messages").unwrap();
        let messages: Vec<Message> = messages.iter().map(parse).collect();
        let rendered = || Template::of(&model).render(&messages, &[], &Map::new()).unwrap();
        let text = text.map_or_else(rendered, str::to_owned);
        let prompt = model.tokenize(&text, true, true);
        let found = prompt_segments(&messages, &prompt, model.vocabulary());
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
    fn a_system_message_of_the_templates_own_is_told_apart() {
        let text = "<|im_start|>system\nown<|im_end|>\n<|im_start|>user\nhi<|im_end|>\nx";
        let found = layers(&[json!({"role": "user", "content": "hi"})], Some(text));
        assert_eq!(found[0], (Layer::Identity, "the template's own".to_owned()));
        assert_eq!(found[1], (Layer::User, "message 1".to_owned()));
    }

    #[test]
    fn where_turns_cannot_be_counted_nothing_is_guessed() {
        let found = layers(&[json!({"role": "user", "content": "hi"})], Some("[INST] hi [/INST]"));
        assert!(found.is_empty());
    }
}
