//! The tokens of a prompt: all of them for a turn, and ahead of it those that are certain.
//!
//! - One function renders and cuts for answers and for what is made hot ahead of them, so that what
//!   is hot is what the answer asks for.
//! - Certain is what two prompts have in common whose messages go on in different ways. So it holds
//!   for every template and tokenizer: whatever either of them makes of the words that come later
//!   is left out.

use hob_runtime::turn::{Purpose, TurnRequest};
use hob_slots::{ConversationId, Token};

use super::Service;
use super::chat::ResolvedRequest;
use super::rendering::{Ingredients, Rendered};
use crate::error::ApiError;
use crate::wire::message::{Message, Role};
use crate::wire::sampling::Shape;

/// Two ways to go on that no tokenizer mixes up: with a letter and with a digit.
const GOES_ON: [&str; 2] = ["w", "7"];

/// How much of a prompt is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it, with the beginning of the answer.
    Whole,
    /// What comes before the rest of a message of the user that begins with these words.
    Before(String),
}

/// The prompt of `messages`, as far as it is meant; of one that is cut only the tokens are told.
/// `known`: the timeline that it probably continues.
pub(super) fn prompt(
    service: &Service,
    asked: &ResolvedRequest,
    messages: &[Message],
    extent: &Extent,
    known: &[Token],
) -> Result<Rendered, ApiError> {
    match extent {
        Extent::Whole => whole(service, asked, messages, known),
        Extent::Before(words) => {
            let tokens = certain(service, asked, messages, words, known)?;
            Ok(Rendered { text: String::new(), tokens, segments: Vec::new() })
        }
    }
}

fn whole(
    service: &Service,
    asked: &ResolvedRequest,
    messages: &[Message],
    known: &[Token],
) -> Result<Rendered, ApiError> {
    let ingredients = Ingredients {
        preamble: asked.preamble.as_deref(),
        messages,
        tools: &asked.request.tools,
        variables: &asked.request.template_variables,
    };
    service.render(&ingredients, known)
}

fn certain(
    service: &Service,
    asked: &ResolvedRequest,
    history: &[Message],
    words: &str,
    known: &[Token],
) -> Result<Vec<Token>, ApiError> {
    let with = |next: &str| {
        let said = if words.is_empty() { next.to_owned() } else { format!("{words} {next}") };
        let messages = [history, &[Message::plain(Role::User, &said)]].concat();
        whole(service, asked, &messages, known).map(|prompt| prompt.tokens)
    };
    let [one, other] = GOES_ON;
    let (mut one, other) = (with(one)?, with(other)?);
    let common = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    one.truncate(common);
    Ok(one)
}

/// For whom a request computes.
pub(super) fn purpose(shape: &Shape) -> Purpose {
    if shape.is_prewarm() { Purpose::Speculate } else { Purpose::Answer }
}

/// A turn that computes `prompt` and stops.
pub(super) fn turn(conversation: ConversationId, prompt: Vec<Token>) -> TurnRequest {
    TurnRequest::prefill(conversation, prompt, Purpose::Speculate)
}
