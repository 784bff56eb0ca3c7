//! Why a prompt differs from the saved timeline, and the remedy: one function per cause.
//!
//! - Each rule reads one [`Difference`]; the first rule that recognises it decides.
//! - A clock in the last message costs no reuse, so it is not reported.

use hob_slots::Layer;

use super::difference::Difference;
use super::tools::Tools;
use super::volatile::{is_id, is_moment};
use super::{Finding, Reason};

type Rule = fn(&Difference) -> Option<Finding>;

/// In the order in which they are tried.
const RULES: [Rule; 8] = [
    cut_otherwise,
    tools_reordered,
    tools_changed,
    history_trimmed,
    clock,
    changing_id,
    reasoning_left_out,
    message_inserted,
];

/// A model's reasoning begins with one of them.
const THINK_MARKS: [&str; 2] = ["<think>", "[THINK]"];

/// `is_appended`: the request did not send the earlier messages, so one that differs is that of the branch that
/// it continues.
pub fn judge(difference: &Difference, is_appended: bool) -> Finding {
    let by_rule = RULES.iter().find_map(|rule| rule(difference));
    by_rule.unwrap_or_else(|| by_place(difference, is_appended))
}

fn cut_otherwise(difference: &Difference) -> Option<Finding> {
    let (saved, new) = (difference.saved_turn(), difference.new_turn());
    (saved == new && !saved.is_empty()).then(|| {
        Finding::new(
            Reason::CutOtherwise,
            "the same text was tokenized in another way".to_owned(),
            "name the conversation in each request: hobd then reuses its tokens",
        )
    })
}

/// The same tools in another order or spelling.
fn tools_reordered(difference: &Difference) -> Option<Finding> {
    let (saved, new) = tools_around(difference)?;
    if saved.list.is_empty() || !saved.same_as(&new) {
        return None;
    }
    let (what, remedy) = if saved.list == new.list {
        (
            "the same tools were spelled in another way, with keys in another order for example",
            "spell the tools' schemas in the same way in each request, with sorted keys",
        )
    } else {
        (
            "the same tools came in another order",
            "declare the tools in the same order in each request",
        )
    };
    Some(Finding::new(Reason::ToolsReordered, what.to_owned(), remedy).in_tools())
}

fn tools_changed(difference: &Difference) -> Option<Finding> {
    let (saved, new) = tools_around(difference)?;
    let changes = new.changes_since(&saved);
    let remedy = "declare the same tools in each request and choose with `tool_choice`; append new \
                  ones to the list";
    (!changes.is_empty()).then(|| {
        let what = format!("the tools changed: {}", changes.join(", "));
        Finding::new(Reason::ToolsChanged, what, remedy).in_tools()
    })
}

/// The tools of both turns, if the difference is among them or one turn has none.
fn tools_around(difference: &Difference) -> Option<(Tools, Tools)> {
    let saved = Tools::in_text(difference.saved_turn());
    let new = Tools::in_text(difference.new_turn());
    let first = [&saved, &new].into_iter().filter(|tools| !tools.list.is_empty());
    let first = first.map(|tools| tools.start).min()?;
    let one_has_none = saved.list.is_empty() || new.list.is_empty();
    (one_has_none || difference.offset >= first).then_some((saved, new))
}

/// A later message follows at once, or after a summary.
fn history_trimmed(difference: &Difference) -> Option<Finding> {
    let turn = difference.turn;
    let later = |at: usize| {
        let new = difference.new.get(at).filter(|new| !new.is_empty())?;
        let place = difference.saved.iter().skip(turn).position(|saved| saved == new)?;
        Some(place).filter(|&place| place > at - turn)
    };
    let (missing, summarised) = match (later(turn), later(turn + 1)) {
        (Some(missing), _) => (missing, false),
        (None, Some(missing)) => (missing, true),
        (None, None) => return None,
    };
    let messages = if missing == 1 { "message" } else { "messages" };
    let place = difference.place();
    let what = if summarised {
        format!("history was trimmed: {missing} {messages} became one, {place}")
    } else {
        format!("history was trimmed: {missing} {messages} are missing before {place}")
    };
    let remedy = "keep the whole history while it fits, then trim a lot at once: everything after the \
                  trimmed part is computed again";
    Some(Finding::new(Reason::HistoryTrimmed, what, remedy))
}

fn clock(difference: &Difference) -> Option<Finding> {
    changes_by_itself(difference, is_moment).then(|| {
        let what = format!("a time or date in {}", in_front_of(difference));
        let remedy = "move it behind the constant text: into the last message";
        Finding::new(Reason::Clock, what, remedy)
    })
}

fn changing_id(difference: &Difference) -> Option<Finding> {
    changes_by_itself(difference, is_id).then(|| {
        let what = format!("a number or an id that changes in {}", in_front_of(difference));
        let remedy = "leave it out, or move it behind the constant text: into the last message";
        Finding::new(Reason::ChangingId, what, remedy)
    })
}

fn changes_by_itself(difference: &Difference, is: fn(&str, usize) -> bool) -> bool {
    let offset = difference.offset;
    difference.turns_behind() > 0
        && is(difference.saved_turn(), offset)
        && is(difference.new_turn(), offset)
}

/// `message 1 stands in front of the tools and 3 messages`
fn in_front_of(difference: &Difference) -> String {
    let tools = Tools::in_text(difference.new_turn());
    let tools = !tools.list.is_empty() && tools.start > difference.offset;
    let messages = match difference.turns_behind() {
        1 => "a message".to_owned(),
        more => format!("{more} messages"),
    };
    let what = if tools { format!("the tools and {messages}") } else { messages };
    format!("{} stands in front of {what}", difference.place())
}

/// The template repeats an answer without its reasoning.
fn reasoning_left_out(difference: &Difference) -> Option<Finding> {
    let thinks = |turn: &str| THINK_MARKS.iter().any(|mark| turn.contains(mark));
    (thinks(difference.saved_turn()) && !thinks(difference.new_turn())).then(|| {
        Finding::new(
            Reason::ReasoningLeftOut,
            "the chat template leaves the reasoning of earlier answers out".to_owned(),
            "none is needed, this model is designed so; without reasoning \
             (`chat_template_kwargs`) answers are reused as they were computed",
        )
    })
}

/// The old turn comes later.
fn message_inserted(difference: &Difference) -> Option<Finding> {
    let turn = difference.turn;
    let before = difference.saved.get(turn).filter(|saved| !saved.is_empty())?;
    let more = difference.new.iter().skip(turn).position(|new| new == before)?;
    let messages = if more == 1 { "a message was" } else { "messages were" };
    let what = format!("{messages} inserted before earlier ones");
    Some(Finding::new(Reason::MessageInserted, what, "put new messages behind the earlier ones"))
}

/// Only the place of the difference is known.
fn by_place(difference: &Difference, is_appended: bool) -> Finding {
    let place = difference.place();
    let begins_branch = is_appended || difference.turns_behind() == 0;
    match difference.layer() {
        Some(Layer::Axioms | Layer::Identity | Layer::Rules | Layer::Capabilities) => Finding::new(
            Reason::InstructionsChanged,
            format!("the instructions changed, in {place}"),
            "put text that changes with each request into the last message",
        ),
        Some(Layer::Context | Layer::Memories | Layer::Affect | Layer::Document) => Finding::new(
            Reason::ContextChanged,
            format!("the context before the messages changed, in {place}"),
            "move it behind the messages: into the last one",
        ),
        Some(Layer::User | Layer::Tool) => Finding::new(
            Reason::MessageEdited,
            format!("{place} is not the message sent before"),
            if begins_branch {
                "none is needed: another message begins a branch"
            } else {
                "send earlier messages unchanged, or only the new ones (`hob.append`)"
            },
        ),
        Some(Layer::Assistant) => Finding::new(
            Reason::AnotherAnswer,
            format!("{place} is not the answer that was generated"),
            if begins_branch {
                "none is needed: another answer begins a branch"
            } else {
                "send answers back unchanged, or only the new messages (`hob.append`)"
            },
        ),
        None => Finding::new(
            Reason::Differs,
            "the prompt changed".to_owned(),
            "put text that changes with each request behind the constant text",
        ),
    }
}
