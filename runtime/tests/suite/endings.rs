//! Which tokens and texts end an answer, and how early they may.

use std::time::Duration;

use hob_runtime::sample::Sampling;
use hob_runtime::{FinishReason, TurnError, TurnRequest};
use hob_slots::Token;

use crate::support::*;

/// The answer to a short prompt, of 10 tokens at most, and its end-of-generation token, that the fake likes best.
fn answered(change: impl FnOnce(TurnRequest, Token) -> TurnRequest) -> (Answer, Token) {
    let model = fake();
    let end = model.vocabulary().eog_tokens()[0];
    let engine = engine(&model, None, options());
    let sampling = Sampling { logit_bias: vec![(end, 100.0)], ..Sampling::greedy() };
    let asked = request("chat", &tokens(&model, &user("hello")), 10);
    let answer = ask(&engine, change(TurnRequest { sampling, ..asked }, end));
    engine.shutdown();
    (answer, end)
}

fn letter(letter: char) -> Token {
    tokens(&fake(), &letter.to_string())[0]
}

/// Chooses the first of these alone, or another of them where the first must not come.
fn only(letters: [char; 2]) -> Sampling {
    let [first, second] = letters.map(letter);
    Sampling {
        allowed: Some([first, second].into()),
        logit_bias: vec![(first, 100.0)],
        ..Sampling::greedy()
    }
}

#[test]
fn no_end_token_comes_before_the_least_tokens() {
    let (answer, end) = answered(|asked, _| asked);
    assert_eq!((answer.tokens, answer.reason), (vec![end], FinishReason::Stop));
    let (answer, end) = answered(|asked, _| TurnRequest { min_tokens: 4, ..asked });
    let (last, before) = answer.tokens.split_last().unwrap();
    assert_eq!((before.len(), *last, answer.reason), (4, end, FinishReason::Stop));
    assert!(!before.contains(&end), "{before:?}");
    let (answer, _) = answered(|asked, _| TurnRequest { min_tokens: 10, ..asked });
    assert_eq!((answer.tokens.len(), answer.reason), (10, FinishReason::Length));
}

#[test]
fn an_answer_ends_at_a_stop_token_behind_the_least_tokens_and_does_not_show_it() {
    let stop_tokens = || [letter('x')].into();
    for (min_tokens, text) in [(0, ""), (3, "yyy")] {
        let (answer, _) = answered(|asked, _| TurnRequest {
            sampling: only(['x', 'y']),
            stop_tokens: stop_tokens(),
            min_tokens,
            ..asked
        });
        assert_eq!((answer.text.as_str(), answer.reason), (text, FinishReason::Stop));
        assert_eq!(answer.tokens.len(), min_tokens + 1);
        assert_eq!(answer.tokens.last(), Some(&letter('x')));
    }
}

#[test]
fn an_end_token_that_is_a_stop_token_ends_an_answer_that_ignores_the_others() {
    let (answer, _) = answered(|asked, _| TurnRequest { ignore_eog: true, ..asked });
    assert_eq!(answer.reason, FinishReason::Length);
    let (answer, end) =
        answered(|asked, end| TurnRequest { ignore_eog: true, stop_tokens: [end].into(), ..asked });
    assert_eq!((answer.tokens, answer.reason), (vec![end], FinishReason::Stop));
}

#[test]
fn a_stop_text_counts_behind_the_least_tokens() {
    let (answer, _) = answered(|asked, _| TurnRequest {
        sampling: only(['x', 'y']),
        stop: vec!["xx".to_owned()],
        min_tokens: 3,
        ..asked
    });
    assert_eq!((answer.text.as_str(), answer.reason), ("xxx", FinishReason::Stop));
    assert_eq!(answer.tokens.len(), 5);
}

#[test]
fn an_answer_whose_time_is_over_ends_with_its_line() {
    let lines = "\n".repeat(10);
    for (letters, secs, text, reason) in [
        (['\n', 'y'], 0, "\n", FinishReason::Time),
        (['x', 'y'], 0, "xxxxxxxxxx", FinishReason::Length),
        (['\n', 'y'], 3_600, lines.as_str(), FinishReason::Length),
    ] {
        let (answer, _) = answered(|asked, _| TurnRequest {
            sampling: only(letters),
            max_time_to_line: Some(Duration::from_secs(secs)),
            ..asked
        });
        assert_eq!((answer.text.as_str(), answer.reason), (text, reason));
    }
}

#[test]
fn an_answer_ends_before_its_least_tokens_where_nothing_else_may_come() {
    let (answer, end) = answered(|asked, end| TurnRequest {
        sampling: Sampling { allowed: Some([end].into()), ..Sampling::greedy() },
        min_tokens: 4,
        ..asked
    });
    assert_eq!((answer.tokens, answer.reason), (vec![end], FinishReason::Stop));
}

#[test]
fn no_end_token_that_the_request_ignores_comes_where_nothing_else_may_come() {
    let model = fake();
    let end = model.vocabulary().eog_tokens()[0];
    let engine = engine(&model, None, options());
    for min_tokens in [0, 3] {
        let asked = TurnRequest {
            sampling: Sampling { allowed: Some([end].into()), ..Sampling::greedy() },
            ignore_eog: true,
            min_tokens,
            ..request("chat", &tokens(&model, &user("hello")), 3)
        };
        let ended = finish(engine.submit(asked).expect("a valid turn"));
        assert!(matches!(ended, Err(TurnError::Grammar(_))), "{min_tokens}: {ended:?}");
    }
    engine.shutdown();
}
