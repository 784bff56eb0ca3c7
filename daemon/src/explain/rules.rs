//! What makes a prompt differ, and what would keep it from doing so: one function a cause.
//!
//! - Each looks at one [`Difference`] and nothing else; the first one that knows it has the word.
//! - A difference in the last message has nothing behind it that could be kept: no clock is blamed
//!   for it.

use hob_slots::Layer;

use super::difference::Difference;
use super::tools::Tools;
use super::volatile::{is_id, is_moment};
use super::{Finding, Reason};

type Rule = fn(&Difference) -> Option<Finding>;

/// In the order in which they are asked.
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

/// The marks that a model puts in front of what it thinks.
const THINK_MARKS: [&str; 2] = ["<think>", "[THINK]"];

/// What makes them differ.
pub fn judge(difference: &Difference) -> Finding {
    RULES.iter().find_map(|rule| rule(difference)).unwrap_or_else(|| by_place(difference))
}

/// The same text in other tokens.
fn cut_otherwise(difference: &Difference) -> Option<Finding> {
    let (kept, new) = (difference.kept_turn(), difference.new_turn());
    (kept == new && !kept.is_empty()).then(|| {
        Finding::new(
            Reason::CutOtherwise,
            "the same text was cut into other tokens".to_owned(),
            "name the conversation in each request, so that its own tokens are taken up again",
        )
    })
}

/// The same tools as before, declared in another order or written otherwise.
fn tools_reordered(difference: &Difference) -> Option<Finding> {
    let (kept, new) = tools_around(difference)?;
    if kept.list.is_empty() || !kept.same_as(&new) {
        return None;
    }
    let (what, remedy) = match kept.list == new.list {
        false => (
            "the same tools came in another order",
            "declare the tools in the same order in each request",
        ),
        true => (
            "the same tools were written otherwise: their keys in another order, say",
            "write the tools' schemas in the same way in each request, with sorted keys",
        ),
    };
    Some(Finding::new(Reason::ToolsReordered, what.to_owned(), remedy).in_tools())
}

/// Other tools than before.
fn tools_changed(difference: &Difference) -> Option<Finding> {
    let (kept, new) = tools_around(difference)?;
    let changes = new.changes_since(&kept);
    let remedy = "declare the same tools in each request and choose with `tool_choice`; new ones \
                  behind the others";
    (!changes.is_empty()).then(|| {
        let what = format!("the tools are not the same: {}", changes.join(", "));
        Finding::new(Reason::ToolsChanged, what, remedy).in_tools()
    })
}

/// The tools of both turns, if they part in them or where one has none.
fn tools_around(difference: &Difference) -> Option<(Tools, Tools)> {
    let kept = Tools::in_text(difference.kept_turn());
    let new = Tools::in_text(difference.new_turn());
    let first = [&kept, &new].into_iter().filter(|tools| !tools.list.is_empty());
    let first = first.map(|tools| tools.start).min()?;
    let one_has_none = kept.list.is_empty() || new.list.is_empty();
    (one_has_none || difference.offset >= first).then_some((kept, new))
}

/// What was said later follows at once, or behind a summary.
fn history_trimmed(difference: &Difference) -> Option<Finding> {
    let turn = difference.turn;
    let later = |at: usize| {
        let new = difference.new.get(at).filter(|new| !new.is_empty())?;
        let place = difference.kept.iter().skip(turn).position(|kept| kept == new)?;
        Some(place).filter(|&place| place > at - turn)
    };
    let (gone, summarised) = match (later(turn), later(turn + 1)) {
        (Some(gone), _) => (gone, false),
        (None, Some(gone)) => (gone, true),
        (None, None) => return None,
    };
    let messages = if gone == 1 { "message" } else { "messages" };
    let place = difference.place();
    let what = match summarised {
        false => format!("history was trimmed: {gone} {messages} are missing before {place}"),
        true => format!("history was trimmed: {gone} {messages} became one, {place}"),
    };
    let remedy = "keep the history whole while it fits, and then trim much at once, seldom: all that \
                  follows what is trimmed is computed again";
    Some(Finding::new(Reason::HistoryTrimmed, what, remedy))
}

/// A time or a date, in front of what stays the same.
fn clock(difference: &Difference) -> Option<Finding> {
    changes_by_itself(difference, is_moment).then(|| {
        let what = format!("a time or date in {}", in_front_of(difference));
        let remedy = "move it behind what stays the same: into the last message";
        Finding::new(Reason::Clock, what, remedy)
    })
}

/// A number or an id, in front of what stays the same.
fn changing_id(difference: &Difference) -> Option<Finding> {
    changes_by_itself(difference, is_id).then(|| {
        let what = format!("a number or an id that changes in {}", in_front_of(difference));
        let remedy = "leave it out, or move it behind what stays the same: into the last message";
        Finding::new(Reason::ChangingId, what, remedy)
    })
}

fn changes_by_itself(difference: &Difference, is: fn(&str, usize) -> bool) -> bool {
    let offset = difference.offset;
    difference.turns_behind() > 0
        && is(difference.kept_turn(), offset)
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

/// The template shows what an answer said, and not what the model thought before.
fn reasoning_left_out(difference: &Difference) -> Option<Finding> {
    let thinks = |turn: &str| THINK_MARKS.iter().any(|mark| turn.contains(mark));
    (thinks(difference.kept_turn()) && !thinks(difference.new_turn())).then(|| {
        Finding::new(
            Reason::ReasoningLeftOut,
            "the chat template leaves out what the model thought before an earlier answer"
                .to_owned(),
            "none is needed, this model is meant so; without reasoning (`chat_template_kwargs`) \
             answers stay as they were computed",
        )
    })
}

/// What was there before comes later.
fn message_inserted(difference: &Difference) -> Option<Finding> {
    let turn = difference.turn;
    let before = difference.kept.get(turn).filter(|kept| !kept.is_empty())?;
    let more = difference.new.iter().skip(turn).position(|new| new == before)?;
    let messages = if more == 1 { "a message was" } else { "messages were" };
    let what = format!("{messages} put in front of what had been said before");
    Some(Finding::new(Reason::MessageInserted, what, "put what is new behind what was said before"))
}

/// Nothing is known of it but where it is.
fn by_place(difference: &Difference) -> Finding {
    let place = difference.place();
    let is_last = difference.turns_behind() == 0;
    match difference.layer() {
        Some(Layer::Axioms | Layer::Identity | Layer::Rules | Layer::Capabilities) => Finding::new(
            Reason::InstructionsChanged,
            format!("the instructions are not the same, in {place}"),
            "say what changes from request to request behind what stays: in the last message",
        ),
        Some(Layer::Context | Layer::Memories | Layer::Affect | Layer::Document) => Finding::new(
            Reason::ContextChanged,
            format!("what stands in front of the messages changed, in {place}"),
            "move it behind what was said: into the last message",
        ),
        Some(Layer::User | Layer::Tool) => Finding::new(
            Reason::MessageEdited,
            format!("{place} is another one than before"),
            match is_last {
                true => "none is needed: another message begins a branch",
                false => "send earlier messages as they were, or only the new ones (`hob.append`)",
            },
        ),
        Some(Layer::Assistant) => Finding::new(
            Reason::AnotherAnswer,
            format!("{place} is not the answer that was given"),
            match is_last {
                true => "none is needed: another answer begins a branch",
                false => "send answers back as they came, or only what is new (`hob.append`)",
            },
        ),
        None => Finding::new(
            Reason::Differs,
            "the prompt is another one than before".to_owned(),
            "put what changes from request to request behind what stays the same",
        ),
    }
}
