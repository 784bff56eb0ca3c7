//! What left a conversation's cells and what came back, answer by answer.
//!
//! - Parts that moved the same way for the same reason are one line.

use std::collections::{BTreeMap, BTreeSet};

use hob_api::AnswerMoves;
use hob_api::turn::{Cells, MovedPart, Reanchored};

use crate::output::{ago, count, line, plain};

/// Maximum length of a question.
const MAX_CHARS: usize = 60;

/// The last one at the bottom, where the prompt of the terminal is.
pub fn lines(answers: &[AnswerMoves], now_secs: u64) -> Vec<String> {
    let Some(latest) = answers.first() else { return Vec::new() };
    let mut lines = Vec::new();
    if answers.iter().any(|answer| !answer.moved.is_empty()) {
        lines.push("It is longer than its cells. What left them, and what came back:".to_owned());
    }
    for answer in answers.iter().rev() {
        let AnswerMoves { at, question, away_tokens, cells, moved, reanchored, recalled, .. } =
            answer;
        let chunks = in_words_of_chunks(answer);
        let when = ago(now_secs.saturating_sub(*at));
        lines.push(String::new());
        lines.push(format!("{when}: {}", line(question, MAX_CHARS)));
        lines.extend(groups(moved).iter().map(|parts| row(reason(parts[0]).1, &named(parts))));
        lines.extend(reanchored.map(|it| row("new timeline", &in_words_of_timeline(it))));
        if *recalled > 0 {
            lines.push(row("back: asked for", &older(*recalled)));
        }
        lines.extend(chunks.map(|chunks| row("from another place", &chunks)));
        if answer.lossy_tokens > 0 {
            let tokens = count(answer.lossy_tokens as u64);
            lines.push(row("rounded KV", &format!("{tokens} tokens")));
        }
        lines.push(row("cells", &in_words(cells, *away_tokens)));
    }
    if let Some(why) = &latest.cells.no_eviction {
        lines.push(String::new());
        lines.push(format!("Nothing can leave its cells: {}", plain(&why.what)));
        lines.push(format!("What to do: {}", plain(&why.remedy)));
    }
    lines
}

fn row(name: &str, text: &str) -> String {
    format!("  {name:<24} {text}")
}

/// What answers the question first, then what belongs to it, then what left.
fn groups(moved: &[MovedPart]) -> Vec<Vec<&MovedPart>> {
    let mut groups: BTreeMap<usize, Vec<&MovedPart>> = BTreeMap::new();
    for part in moved {
        groups.entry(reason(part).0).or_default().push(part);
    }
    groups.into_values().collect()
}

/// The place of a part's reason among the reasons, and its words.
fn reason(part: &MovedPart) -> (usize, &'static str) {
    match (part.way.as_ref(), part.why.as_ref()) {
        ("out", _) => (7, "left: no room"),
        (_, "mention") => (0, "back: mentioned"),
        (_, "words") => (1, "back: same words"),
        (_, "meaning") => (2, "back: same meaning"),
        (_, "group") => (3, "back: belongs to those"),
        (_, "room") => (4, "back: there was room"),
        (_, "stays") => (5, "back: it always stays"),
        _ => (6, "back"),
    }
}

/// `16 tokens of message 3`, `80 tokens of messages 4, 8 and 10, a.rs, the answer`
fn named(parts: &[&MovedPart]) -> String {
    let tokens = parts.iter().map(|part| part.tokens).sum::<usize>() as u64;
    let (mut numbers, mut names) = (BTreeSet::new(), Vec::new());
    for part in parts {
        let name = part.key.as_deref().unwrap_or("the answer");
        match name.strip_prefix("message ").and_then(|number| number.parse::<u32>().ok()) {
            Some(number) => drop(numbers.insert(number)),
            None if names.contains(&name) => {}
            None => names.push(name),
        }
    }
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let messages = match numbers.as_slice() {
        [] => None,
        [one] => Some(format!("message {one}")),
        [some @ .., last] => Some(format!("messages {} and {last}", some.join(", "))),
    };
    let names = names.into_iter().map(|name| line(name, MAX_CHARS));
    let all: Vec<String> = messages.into_iter().chain(names).collect();
    let tokens =
        if tokens == 1 { "1 token".to_owned() } else { format!("{} tokens", count(tokens)) };
    format!("{tokens} of {}", all.join(", "))
}

/// `goes on with its newest 9 messages; 12 older messages are left out until a question asks for them`
fn in_words_of_timeline(Reanchored { kept, left, .. }: Reanchored) -> String {
    let (kept, left) = (count(kept as u64), older(left));
    format!(
        "goes on with its newest {kept} messages; {left} left out until a question asks for them"
    )
}

fn older(messages: usize) -> String {
    match messages {
        1 => "1 older message".to_owned(),
        _ => format!("{} older messages", count(messages as u64)),
    }
}

/// `3,968 tokens, 128 computed at their seams`
fn in_words_of_chunks(answer: &AnswerMoves) -> Option<String> {
    if let Some(why) = &answer.immovable {
        return Some(format!("nothing: {}", plain(why)));
    }
    let [moved, repaired] =
        [answer.moved_tokens, answer.repaired_tokens].map(|tokens| count(tokens as u64));
    (answer.moved_tokens > 0).then(|| format!("{moved} tokens, {repaired} computed at their seams"))
}

/// `314 of 350 at the end, 336 at most; 60 tokens were away`
fn in_words(cells: &Cells, away_tokens: usize) -> String {
    let [budget, peak, resident] =
        [cells.budget, cells.peak, cells.resident].map(|cells| count(cells as u64));
    let away = match away_tokens {
        0 => String::new(),
        1 => "; 1 token was away".to_owned(),
        tokens => format!("; {} tokens were away", count(tokens as u64)),
    };
    format!("{resident} of {budget} at the end, {peak} at most{away}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(answers: Value) -> Vec<String> {
        let answers: Vec<AnswerMoves> = serde_json::from_value(answers).unwrap();
        lines(&answers, 190)
    }

    fn moved(key: Option<&str>, tokens: usize, way: &str, why: &str) -> Value {
        json!({"key": key, "tokens": tokens, "way": way, "why": why})
    }

    #[test]
    fn an_answer_tells_what_of_its_prompt_came_from_another_place_or_why_nothing_did() {
        let cells = json!({"budget": 350, "peak": 336, "resident": 314});
        let of = |more: Value| {
            let mut answer = json!({"at": 180, "question": "Why?", "cells": cells});
            answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            told(json!([answer]))[2].clone()
        };
        assert_eq!(
            of(json!({"moved_tokens": 3968, "repaired_tokens": 128})),
            "  from another place       3,968 tokens, 128 computed at their seams"
        );
        assert_eq!(of(json!({"immovable": "why"})), "  from another place       nothing: why");
        assert_eq!(of(json!({"lossy_tokens": 1200})), "  rounded KV               1,200 tokens");
        assert_eq!(
            of(json!({"reanchored": {"kept": 9, "left": 12}})),
            "  new timeline             goes on with its newest 9 messages; 12 older messages left out \
             until a question asks for them"
        );
        assert_eq!(of(json!({"recalled": 2})), "  back: asked for          2 older messages");
    }

    #[test]
    fn each_answer_names_what_came_back_and_why_then_what_left() {
        let moves = json!([
            moved(Some("message 10"), 10, "out", "budget"),
            moved(Some("message 4"), 10, "back", "group"),
            moved(Some("message 3"), 1000, "back", "words"),
            moved(Some("message 2"), 10, "out", "budget"),
            moved(Some("message 2"), 20, "out", "budget"),
            moved(Some("message 9"), 10, "out", "budget"),
            moved(None, 20, "out", "budget"),
            moved(Some("a.rs"), 64, "back", "mention"),
        ]);
        let later = json!({
            "at": 180, "question": "What is in a.rs?\nAnd why?", "away_tokens": 1200, "moved": moves,
            "cells": {"budget": 2048, "peak": 2040, "resident": 1990},
        });
        let earlier = json!({
            "at": 10, "question": "Hello", "moved": [moved(Some("a.rs"), 1, "out", "budget")],
            "cells": {"budget": 2048, "peak": 2000, "resident": 1900},
        });
        let expected = [
            "It is longer than its cells. What left them, and what came back:",
            "",
            "3 min ago: Hello",
            "  left: no room            1 token of a.rs",
            "  cells                    1,900 of 2,048 at the end, 2,000 at most",
            "",
            "10 s ago: What is in a.rs? And why?",
            "  back: mentioned          64 tokens of a.rs",
            "  back: same words         1,000 tokens of message 3",
            "  back: belongs to those   10 tokens of message 4",
            "  left: no room            70 tokens of messages 2, 9 and 10, the answer",
            "  cells                    1,990 of 2,048 at the end, 2,040 at most; 1,200 tokens were away",
        ];
        assert_eq!(told(json!([later, earlier])), expected);
        assert!(told(json!([])).is_empty());
    }

    #[test]
    fn a_conversation_that_stays_in_its_cells_says_why_and_what_to_do() {
        let why =
            json!({"reason": "off", "what": "the setting `eviction` is off", "remedy": "set it"});
        let cells = json!({"budget": 512, "peak": 40, "resident": 40, "no_eviction": why});
        let lines = told(json!([{"at": 180, "question": "Hello", "cells": cells}]));
        let expected = [
            "",
            "10 s ago: Hello",
            "  cells                    40 of 512 at the end, 40 at most",
            "",
            "Nothing can leave its cells: the setting `eviction` is off",
            "What to do: set it",
        ];
        assert_eq!(lines, expected);
    }
}
