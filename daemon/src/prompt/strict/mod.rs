//! Messages in other forms, for a chat template that refuses them as they are.
//!
//! - Clients send what the models of OpenAI and Anthropic read: several messages of instructions, also within the
//!   conversation, messages of the user or of the assistant in a row, several calls in one answer, calls without
//!   results, and ids that other models gave to calls. The templates of Qwen 3.5, Mistral, Gemma and Llama 3 refuse
//!   these; that of Gemma 2 all instructions.
//! - Messages that a template takes as they are stay so, and so does their prompt. Of the forms, those with fewer
//!   changes are tried first.
//! - Two forms come before the first attempt. Most templates write no ids, so results stand in the order of their calls:
//!   clients that run tools side by side send them as they come. The template of gpt-oss writes the first call of an
//!   answer alone, so it gets each call in an answer.
//! - A template that exceeds a limit is not tried with another form: that might take as long again, and the prompts of
//!   all other turns wait for it.
//! - Nothing that the model reads is left out. A form changes each message by those around it, so that a longer
//!   history begins as the shorter one did.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hob_dialect::Dialect;
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
    let messages = results_in_order(&messages).map_or(messages, Cow::Owned);
    let alone = match template.dialect(tools) {
        Dialect::Harmony => one_call_each(&messages),
        _ => None,
    };
    let messages = alone.map_or(messages, Cow::Owned);
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

/// The results behind an answer in the order of its calls; those of no call of it stand behind them.
fn results_in_order(messages: &[Message]) -> Option<Vec<Message>> {
    let runs = || messages.chunk_by(|_, next| next.role == Role::Tool);
    let ordered = |run: &[Message]| {
        let (first, results) = run.split_first()?;
        let mut placed = with_places(results, first);
        if placed.is_sorted_by_key(|(place, _)| *place) {
            return None;
        }
        placed.sort_by_key(|(place, _)| *place);
        let results = placed.into_iter().map(|(_, result)| result.clone());
        Some(std::iter::once(first.clone()).chain(results).collect::<Vec<Message>>())
    };
    if runs().all(|run| ordered(run).is_none()) {
        return None;
    }
    Some(runs().flat_map(|run| ordered(run).unwrap_or_else(|| run.to_vec())).collect())
}

/// Each result with the place of its call in the answer; `usize::MAX`: of no call of it. Several calls may have one id,
/// such as the name of their tool: the results come in the order of these calls, and the last call has those that are
/// left.
fn with_places<'m>(results: &'m [Message], answer: &Message) -> Vec<(usize, &'m Message)> {
    let mut places: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
    for (place, call) in answer.calls_made().enumerate() {
        places.entry(call.id).or_default().push_back(place);
    }
    let mut placed = Vec::with_capacity(results.len());
    for result in results {
        let place = match places.get_mut(result.answered_call().unwrap_or_default()) {
            Some(several) if several.len() > 1 => several.pop_front(),
            Some(last) => last.front().copied(), // A call may have several results.
            None => None,
        };
        placed.push((place.unwrap_or(usize::MAX), result));
    }
    placed
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
        let mut placed = with_places(results, message);
        placed.sort_by_key(|(place, _)| *place);
        let mut placed = placed.into_iter().peekable();
        for (place, call) in message.with_one_call_each().into_iter().enumerate() {
            formed.push(call);
            while let Some((_, result)) = placed.next_if(|(of, _)| *of == place) {
                formed.push(result.clone());
            }
        }
        formed.extend(placed.map(|(_, result)| result.clone()));
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
mod tests;
