//! Messages in other forms, for a chat template that refuses them as they are.
//!
//! - Clients send what the models of OpenAI and Anthropic read: several messages of instructions, also within the
//!   conversation, messages of the user or of the assistant in a row, several calls in one answer, calls without
//!   results, and ids that other models gave to calls. The templates of Qwen 3.5, Mistral, Gemma and Llama 3 refuse
//!   these; that of Gemma 2 all instructions.
//! - Messages that a template takes as they are stay so, and so does their prompt. Of the forms, those with fewer
//!   changes are tried first.
//! - A template that exceeds a limit is not tried with another form: that might take as long again, and the prompts of
//!   all other turns wait for it.
//! - Nothing that the model reads is left out. A form changes each message by those around it, so that a longer
//!   history begins as the shorter one did.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use hob_prewarm::profile::joined;
use serde_json::{Map, Value};

use super::template::{Refusal, Template};
use crate::error::ApiError;
use crate::wire::label::Label;
use crate::wire::message::{Message, Role, id_of_place, reminder};
use crate::wire::tools::Tool;

/// Changes messages; `None`: they have the form.
type Form = fn(&[Message]) -> Option<Vec<Message>>;

const FORMS: [Form; 7] = [
    instructions_in_front,
    no_user_twice,
    short_ids,
    one_call_each,
    no_open_calls,
    no_assistant_twice,
    instructions_of_user,
];

/// The messages in the first form that the template takes, and what it writes for them.
///
/// # Errors
/// What the template says of the messages as they are, or which limit it exceeds.
pub fn rendered<'m>(
    template: &Template,
    messages: Cow<'m, [Message]>,
    tools: &[Tool],
    variables: &Map<String, Value>,
) -> Result<(Cow<'m, [Message]>, String), ApiError> {
    let refusal = match template.try_render(&messages, tools, variables) {
        Ok(text) => return Ok((messages, text)),
        Err(Refusal { error, is_final: true }) => return Err(error),
        Err(Refusal { error, .. }) => error,
    };
    for formed in forms(&messages) {
        match template.try_render(&formed, tools, variables) {
            Ok(text) => return Ok((Cow::Owned(formed), text)),
            Err(Refusal { error, is_final: true }) => return Err(error),
            Err(_) => {}
        }
    }
    Err(refusal)
}

/// The messages in other forms: in each one, then in more and more of them.
fn forms(messages: &[Message]) -> impl Iterator<Item = Vec<Message>> {
    let alone = FORMS.into_iter().filter_map(move |form| form(messages));
    let mut formed = messages.to_vec();
    let together = FORMS.into_iter().filter_map(move |form| {
        formed = form(&formed)?;
        Some(formed.clone())
    });
    alone.chain(together.skip(1)) // The first form alone begins both.
}

/// Instructions in one message in front; later ones are text of the user.
fn instructions_in_front(messages: &[Message]) -> Option<Vec<Message>> {
    let in_front = messages.iter().take_while(|message| message.role.instructs()).count();
    let (own, rest) = messages.split_at(in_front);
    if own.len() <= 1 && !rest.iter().any(|message| message.role.instructs()) {
        return None;
    }
    let of_rest = rest.iter().map(|message| {
        if message.role.instructs() {
            Message::plain(Role::User, &reminder(message.text())).labelled(&message.label())
        } else {
            message.clone()
        }
    });
    Some(in_one(own).into_iter().chain(of_rest).collect())
}

/// `None` without instructions.
fn in_one(own: &[Message]) -> Option<Message> {
    let text = joined(own.iter().map(Message::text));
    (!own.is_empty()).then(|| Message::plain(Role::System, &text).labelled(&label_of(own)))
}

/// The label of several messages as one: of each field, the first that one of them has.
fn label_of(messages: &[Message]) -> Label {
    messages.iter().fold(Label::default(), |label, message| label.or(&message.label()))
}

/// A message of the user joins the one before it, or the result of a tool that it follows.
fn no_user_twice(messages: &[Message]) -> Option<Vec<Message>> {
    let joins = |before: &Message, message: &Message| {
        takes_more(before) && message.role == Role::User && !is_document(message)
    };
    with_each_run(messages, joins, |run| {
        let text = joined(run.iter().map(Message::text));
        run[0].clone().with_text(&text).labelled(&label_of(run))
    })
}

/// Each run of messages that join the one before them as one message, which `as_one` makes; `None` without such a run.
/// A run is made at once: a message that grew by one at a time would copy its text with each of them.
fn with_each_run(
    messages: &[Message],
    joins: impl Fn(&Message, &Message) -> bool,
    as_one: impl Fn(&[Message]) -> Message,
) -> Option<Vec<Message>> {
    let of_run = |run: &[Message]| match run {
        [message] => message.clone(),
        run => as_one(run),
    };
    let formed: Vec<Message> = messages.chunk_by(joins).map(of_run).collect();
    (formed.len() < messages.len()).then_some(formed)
}

fn takes_more(message: &Message) -> bool {
    matches!(message.role, Role::User | Role::Tool) && !is_document(message)
}

/// Whether a message is a document, whose KV is that of a message of its own.
fn is_document(message: &Message) -> bool {
    message.written_document().is_some()
}

/// An answer joins the one before it, unless that one has calls.
fn no_assistant_twice(messages: &[Message]) -> Option<Vec<Message>> {
    let joins = |before: &Message, message: &Message| {
        message.role == Role::Assistant && before.role == Role::Assistant && !before.has_calls()
    };
    with_each_run(messages, joins, |run| {
        let text = joined(run.iter().map(Message::text));
        let reasoning = joined(run.iter().map(Message::reasoning));
        let last = run[run.len() - 1].clone(); // The calls are those of the last one.
        last.with_text(&text).with_reasoning(&reasoning).labelled(&label_of(run))
    })
}

/// Instructions join the first message of the user, or are one. It stays in the cells as they do.
fn instructions_of_user(messages: &[Message]) -> Option<Vec<Message>> {
    let formed = instructions_in_front(messages).unwrap_or_else(|| messages.to_vec());
    let (own, rest) = formed.split_first().filter(|(own, _)| own.role.instructs())?;
    let first = rest.first().filter(|first| first.role == Role::User && !is_document(first));
    let (told, behind) = match first {
        Some(first) => {
            let text = joined([own.text(), first.text()]);
            let label = own.label().or(&first.label());
            (first.clone().with_text(&text).labelled(&label), &rest[1..])
        }
        None => (Message::plain(Role::User, own.text()).labelled(&own.label()), rest),
    };
    let label = Label { pin: Some(true), ..told.label() };
    Some(std::iter::once(told.labelled(&label)).chain(behind.iter().cloned()).collect())
}

/// Each call has an id of nine letters and digits, by its place, and so have the results.
fn short_ids(messages: &[Message]) -> Option<Vec<Message>> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = 0;
    let mut id = |old: &str| {
        let mut next = || {
            count += 1;
            count
        };
        // Calls without an id are different ones.
        let place = match old {
            "" => next(),
            old => *places.entry(old.to_owned()).or_insert_with(next),
        };
        id_of_place(place)
    };
    let formed: Vec<Message> =
        messages.iter().map(|message| message.clone().with_call_ids(&mut id)).collect();
    (formed != messages).then_some(formed)
}

/// An answer has one call, and its results follow. Results of no call of an answer stand behind the last one.
fn one_call_each(messages: &[Message]) -> Option<Vec<Message>> {
    if messages.iter().all(has_one_call) {
        return None;
    }
    let mut formed = Vec::with_capacity(messages.len());
    let mut rest = messages;
    while let Some((message, behind)) = rest.split_first() {
        rest = behind;
        if has_one_call(message) {
            formed.push(message.clone());
            continue;
        }
        let count = rest.iter().take_while(|message| message.role == Role::Tool).count();
        let (results, behind) = rest.split_at(count);
        rest = behind;
        let mut of_call: BTreeMap<Option<&str>, Vec<&Message>> = BTreeMap::new();
        for result in results {
            of_call.entry(result.answered_call()).or_default().push(result);
        }
        for (call, made) in message.with_one_call_each().into_iter().zip(message.calls_made()) {
            formed.push(call);
            let own = of_call.remove(&Some(made.id)).unwrap_or_default();
            formed.extend(own.into_iter().cloned());
        }
        let left = results.iter().filter(|result| of_call.contains_key(&result.answered_call()));
        formed.extend(left.cloned());
    }
    Some(formed)
}

/// Calls that have no result once the talk goes on are text: an answer was cut within them, or the client sent no result.
fn no_open_calls(messages: &[Message]) -> Option<Vec<Message>> {
    let mut formed = Vec::with_capacity(messages.len());
    // The calls that have a result further behind, in front of the user's next message: some clients send answers with
    // one call each in a row, and the results behind them.
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    let mut next: Option<&Message> = None;
    for message in messages.iter().rev() {
        // The last message may get its results yet.
        let goes_on = next.is_some_and(|next| next.role != Role::Tool);
        let has_result = || message.calls_made().any(|call| answered.contains(call.id));
        let is_open = goes_on && message.has_calls() && !has_result();
        formed.push(if is_open { with_calls_as_text(message) } else { message.clone() });
        if message.role == Role::User {
            answered.clear();
        } else {
            answered.extend(message.answered_call());
        }
        next = Some(message);
    }
    formed.reverse();
    (formed != messages).then_some(formed)
}

fn with_calls_as_text(message: &Message) -> Message {
    let calls: Vec<String> =
        message.calls_made().map(|call| format!("{} {}", call.name, call.arguments)).collect();
    let calls = calls.iter().map(String::as_str);
    let text = joined(std::iter::once(message.text()).chain(calls));
    Message::answer(&text, message.reasoning(), &[]).labelled(&message.label())
}

/// Whether a message has one call at most.
fn has_one_call(message: &Message) -> bool {
    message.calls_made().nth(1).is_none()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    fn read(messages: &[(&str, &str)]) -> Vec<Message> {
        let parse = |&(role, content): &(&str, &str)| {
            let id = (role == "tool").then_some("c");
            let message = json!({"role": role, "content": content, "tool_call_id": id});
            Message::parse(&message, "messages").unwrap()
        };
        messages.iter().map(parse).collect()
    }

    fn said(messages: &[Message]) -> Vec<(&str, &str)> {
        messages.iter().map(|message| (message.role.as_str(), message.text())).collect()
    }

    #[test]
    fn instructions_stand_in_front_in_one_message() {
        let talk = read(&[
            ("system", "Be brief."),
            ("developer", "Be kind."),
            ("user", "Hi"),
            ("developer", "Be funny."),
        ]);
        let formed = instructions_in_front(&talk).unwrap();
        let reminder = "<system-reminder>\nBe funny.\n</system-reminder>";
        let expected = [("system", "Be brief.\n\nBe kind."), ("user", "Hi"), ("user", reminder)];
        assert_eq!(said(&formed), expected);
        assert_eq!(instructions_in_front(&formed), None);
        assert_eq!(instructions_in_front(&talk[2..3]), None);
        assert_eq!(said(&instructions_in_front(&talk[2..]).unwrap()), expected[1..]);
    }

    #[test]
    fn the_user_speaks_once_between_answers() {
        let talk = read(&[
            ("user", "Hi"),
            ("user", "there"),
            ("assistant", "Hello"),
            ("tool", "on"),
            ("user", "Well"),
        ]);
        let formed = no_user_twice(&talk).unwrap();
        let expected = [("user", "Hi\n\nthere"), ("assistant", "Hello"), ("tool", "on\n\nWell")];
        assert_eq!(said(&formed), expected);
        assert_eq!(formed[2].to_json()["tool_call_id"], Value::from("c"));
        assert_eq!(no_user_twice(&formed), None);
    }

    #[test]
    fn the_assistant_speaks_once_between_questions() {
        let thought = json!({"role": "assistant", "content": "Hello", "reasoning_content": "hm"});
        let call = json!({"id": "c", "function": {"name": "f", "arguments": "{}"}});
        let called = json!({"role": "assistant", "content": "there", "tool_calls": [call]});
        let again = json!({"role": "assistant", "content": "So."});
        let talk =
            [thought, called, again].map(|message| Message::parse(&message, "messages").unwrap());
        let formed = no_assistant_twice(&talk).unwrap();
        assert_eq!(said(&formed), [("assistant", "Hello\n\nthere"), ("assistant", "So.")]);
        assert_eq!((formed[0].reasoning(), formed[0].calls_made().count()), ("hm", 1));
        assert_eq!(no_assistant_twice(&formed), None);
    }

    #[test]
    fn instructions_are_the_begin_of_what_the_user_says() {
        let talk = read(&[("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello")]);
        let formed = instructions_of_user(&talk).unwrap();
        assert_eq!(said(&formed), [("user", "Be brief.\n\nHi"), ("assistant", "Hello")]);
        assert_eq!(formed[0].label().pin, Some(true));
        assert_eq!(instructions_of_user(&formed), None);
        let begun = read(&[("system", "Be brief."), ("assistant", "Hello")]);
        let formed = instructions_of_user(&begun).unwrap();
        assert_eq!(said(&formed), [("user", "Be brief."), ("assistant", "Hello")]);
    }

    #[test]
    fn ids_of_calls_are_those_of_their_places() {
        let call = |id: &str| json!({"id": id, "function": {"name": "f", "arguments": "{}"}});
        let unnamed = json!({"function": {"name": "f", "arguments": "{}"}});
        let answer = |calls: Value| json!({"role": "assistant", "tool_calls": calls});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
        let talk = [
            answer(json!([call("toolu_01"), unnamed, call("toolu_02")])),
            result("toolu_02"),
            result("toolu_01"),
            answer(json!([call("toolu_01")])),
            json!({"role": "user", "content": "Hi"}),
        ];
        let talk = talk.map(|message| Message::parse(&message, "messages").unwrap());
        let formed = short_ids(&talk).unwrap();
        let ids = |message: &Message| {
            message.calls_made().map(|call| call.id.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&formed[0]), ["call00001", "call00002", "call00003"]);
        let answered = |message: &Message| message.to_json()["tool_call_id"].clone();
        assert_eq!([&formed[1], &formed[2]].map(answered), ["call00003", "call00001"]);
        assert_eq!(ids(&formed[3]), ["call00001"]);
        assert_eq!((short_ids(&formed), &formed[4]), (None, &talk[4]));
    }

    #[test]
    fn each_call_is_followed_by_its_result() {
        let call = |id: &str| json!({"id": id, "function": {"name": id, "arguments": "{}"}});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
        let talk = [
            json!({"role": "assistant", "content": "So.", "reasoning_content": "hm",
                   "tool_calls": [call("a"), call("b")]}),
            result("b"),
            result("a"),
            result("lost"),
            json!({"role": "assistant", "tool_calls": [call("c")]}),
        ];
        let talk = talk.map(|message| Message::parse(&message, "messages").unwrap());
        let formed = one_call_each(&talk).unwrap();
        let parts = formed.iter().map(|message| {
            let called = message.calls_made().map(|call| call.id).collect::<Vec<_>>();
            (called.concat(), message.text(), message.reasoning())
        });
        let expected = [
            ("a", "So.", "hm"),
            ("", "a", ""),
            ("b", "", ""),
            ("", "b", ""),
            ("", "lost", ""),
            ("c", "", ""),
        ];
        let expected =
            expected.map(|(called, text, reasoning)| (called.to_owned(), text, reasoning));
        assert_eq!(parts.collect::<Vec<_>>(), expected);
        assert_eq!(one_call_each(&formed), None);
    }

    #[test]
    fn calls_without_a_result_are_text_once_the_talk_goes_on() {
        let call = |arguments: &str| json!({"function": {"name": "f", "arguments": arguments}});
        let cut = json!({"role": "assistant", "content": "So.", "reasoning_content": "hm",
                         "tool_calls": [call("{}"), call("{\"a\": \"b")], "hob": {"pin": true}});
        let made = json!({"role": "assistant", "tool_calls": [call("{}")]});
        let result = json!({"role": "tool", "tool_call_id": "c", "content": "on"});
        let question = json!({"role": "user", "content": "Well?"});
        let talk = [cut, question, made, result].map(|it| Message::parse(&it, "messages").unwrap());
        let formed = no_open_calls(&talk).unwrap();
        let text = "So.\n\nf {}\n\nf {\"a\": \"b";
        let expected = [("assistant", text), ("user", "Well?"), ("assistant", ""), ("tool", "on")];
        assert_eq!(said(&formed), expected);
        assert_eq!((formed[0].has_calls(), formed[2].has_calls()), (false, true));
        assert_eq!((formed[0].reasoning(), formed[0].label().pin), ("hm", Some(true)));
        assert_eq!([no_open_calls(&formed), no_open_calls(&talk[..1])], [None, None]);
        let made = |id: &str| {
            let call = json!({"id": id, "function": {"name": "f", "arguments": "{}"}});
            json!({"role": "assistant", "tool_calls": [call]})
        };
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "on"});
        let in_a_row = [made("a"), made("b"), result("a"), result("b")];
        let in_a_row = in_a_row.map(|it| Message::parse(&it, "messages").unwrap());
        assert_eq!(no_open_calls(&in_a_row), None);
    }

    #[test]
    fn a_hundred_thousand_messages_take_a_form_in_seconds() {
        const COUNT: usize = 100_000;
        let began = Instant::now();
        let said = |role| vec![Message::plain(role, &"a".repeat(100)); COUNT];
        let call =
            |n: usize| json!({"id": n.to_string(), "function": {"name": "f", "arguments": "{}"}});
        let result = |n: usize| {
            let id = n.to_string();
            let result = json!({"role": "tool", "tool_call_id": id, "content": "x"});
            Message::parse(&result, "messages").unwrap()
        };
        assert_eq!(no_user_twice(&said(Role::User)).unwrap().len(), 1);
        assert_eq!(no_assistant_twice(&said(Role::Assistant)).unwrap().len(), 1);

        let calls: Vec<Value> = (0..COUNT).map(call).collect();
        let answer = std::iter::once(Message::answer("", "", &calls));
        let talk: Vec<Message> = answer.chain((0..COUNT).rev().map(result)).collect();
        let formed = one_call_each(&talk).unwrap();
        assert_eq!((formed.len(), formed[1].answered_call()), (2 * COUNT, Some("0")));

        let called = (0..COUNT).map(|n| Message::answer("", "", &[call(n)]));
        let talk: Vec<Message> = called.chain(said(Role::User)).collect();
        assert!(no_open_calls(&talk).unwrap().iter().all(|message| !message.has_calls()));
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }

    #[test]
    fn forms_with_fewer_changes_come_first() {
        let talk = read(&[("system", "a"), ("system", "b"), ("user", "c"), ("user", "d")]);
        let lengths = forms(&talk).map(|formed| formed.len()).collect::<Vec<_>>();
        assert_eq!(lengths, [3, 3, 2, 2, 1]);
    }

    #[test]
    fn a_joined_message_has_the_labels_of_both_and_a_document_stays_alone() {
        let pinned = |text: &str, label: Value| {
            let message = json!({"role": "user", "content": text, "hob": label});
            Message::parse(&message, "messages").unwrap()
        };
        let document = Message::of_document("document a", "Once.");
        let talk = [
            document.clone(),
            pinned("One", json!({"key": "k"})),
            pinned("two", json!({"pin": true})),
        ];
        let formed = no_user_twice(&talk).unwrap();
        assert_eq!((&formed[0], formed.len()), (&document, 2));
        let label = Label { key: Some("k".into()), weight: None, pin: Some(true) };
        assert_eq!(formed[1].label(), label);
    }
}
