//! Applies each rule to prompts as clients send them.

use hob_runtime::backend::Model;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::turn::TokenCounts;
use hob_slots::ModelHash;

use super::*;

const SYSTEM: &str = "<|im_start|>system\n";
const LIGHT: &str = r#"{"name":"light","description":"Switches"}"#;
const HEAT: &str = r#"{"name":"heat","description":"Warms"}"#;

fn cut(text: &str) -> Vec<Token> {
    FakeModel::new().tokenize(text, false, true)
}

fn turn(role: &str, text: &str) -> String {
    format!("<|im_start|>{role}\n{text}<|im_end|>\n")
}

/// Labels of turns by their role, as the daemon gives them.
fn segments(prompt: &[Token]) -> Vec<SegmentRef> {
    let model = FakeModel::new();
    let mut segments = Vec::new();
    let mut begin = 0;
    for (at, _) in prompt.iter().enumerate().filter(|(_, token)| model.vocabulary().is_eog(**token))
    {
        let text = String::from_utf8(model.vocabulary().bytes(&prompt[begin..=at])).unwrap();
        let layer = match text {
            text if text.contains("<|im_start|>system") => Layer::Identity,
            text if text.contains("<|im_start|>assistant") => Layer::Assistant,
            _ => Layer::User,
        };
        let key = format!("message {}", segments.len() + 1);
        segments.push(SegmentRef::new(at as u32 + 1, layer, key));
        begin = at + 1;
    }
    segments
}

fn report(tokens: TokenCounts, miss: Option<MissReason>) -> TurnReport {
    TurnReport { tokens, miss, ..TurnReport::default() }
}

fn explain(saved: &[String], new: &[String]) -> Explanation {
    let saved = cut(&saved.concat());
    let prompt = cut(&format!("{}<|im_start|>assistant\n", new.concat()));
    let at = saved.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
    let miss = MissReason::Differs { at, saved: saved[at..].into() };
    let segments = segments(&prompt);
    let subject = Subject { prompt, segments, remembered: at, is_appended: false };
    let model = FakeModel::new();
    Explanation::of(&subject, &report(TokenCounts::default(), Some(miss)), model.vocabulary())
        .unwrap()
}

fn talk(system: &str) -> Vec<String> {
    let said =
        [("user", "Hello"), ("assistant", "Hi!"), ("user", "How are you?"), ("assistant", "Fine.")];
    let said = said.map(|(role, text)| turn(role, text));
    [vec![turn("system", system)], said.to_vec()].concat()
}

fn then(mut talk: Vec<String>, text: &str) -> Vec<String> {
    talk.push(turn("user", text));
    talk
}

#[test]
fn a_clock_before_the_tools_belongs_behind_them() {
    let system = |time: &str| format!("It is {time}.\n<tools>\n{LIGHT}\n{HEAT}\n</tools>");
    let found = explain(&talk(&system("10:41")), &then(talk(&system("10:52")), "Bye"));
    assert_eq!(found.reason, Reason::Clock);
    assert_eq!(found.segment, Some((Layer::Identity, "message 1".to_owned())));
    let texts = found.texts.unwrap();
    assert_eq!(texts.before, format!("{SYSTEM}It is 10:"));
    assert!(texts.saved.starts_with("41.\n<tools>") && texts.new.starts_with("52.\n<tools>"));
    assert!(
        found.what.ends_with("in message 1 stands in front of the tools and 5 messages"),
        "{}",
        found.what
    );
    assert!(found.remedy.contains("into the last message"));
}

#[test]
fn reordered_tools_are_reported() {
    let system = |one: &str, other: &str| format!("Help.\n<tools>\n{one}\n{other}\n</tools>");
    let found = explain(&talk(&system(LIGHT, HEAT)), &talk(&system(HEAT, LIGHT)));
    assert_eq!(found.reason, Reason::ToolsReordered);
    assert_eq!(found.segment, Some((Layer::Capabilities, "tools".to_owned())));
    assert!(found.remedy.contains("same order"));
    let spaced = r#"{"description": "Warms", "name": "heat"}"#;
    let found = explain(&talk(&system(LIGHT, HEAT)), &talk(&system(LIGHT, spaced)));
    assert_eq!(found.reason, Reason::ToolsReordered);
    assert!(found.remedy.contains("sorted keys"));
}

#[test]
fn changed_tools_are_named() {
    let found = explain(&talk(&format!("Help. {LIGHT}")), &talk(&format!("Help. {LIGHT}{HEAT}")));
    assert_eq!(found.reason, Reason::ToolsChanged);
    assert!(found.what.ends_with("heat was added"), "{}", found.what);
}

#[test]
fn a_clock_before_reordered_tools_is_the_first_cause() {
    let found = explain(
        &talk(&format!("It is 10:41. {LIGHT}{HEAT}")),
        &talk(&format!("It is 10:42. {HEAT}{LIGHT}")),
    );
    assert_eq!(found.reason, Reason::Clock);
}

#[test]
fn history_without_its_middle_is_trimmed() {
    let saved = talk("Be brief.");
    let new = then([&saved[..1], &saved[3..]].concat(), "Bye");
    let found = explain(&saved, &new);
    assert_eq!(found.reason, Reason::HistoryTrimmed);
    assert!(found.what.contains("2 messages are missing before message 2"), "{}", found.what);

    let summary = vec![turn("user", "We greeted each other.")];
    let new = then([&saved[..1], &summary, &saved[3..]].concat(), "Bye");
    let found = explain(&saved, &new);
    assert_eq!(found.reason, Reason::HistoryTrimmed);
    assert!(found.what.contains("2 messages became one"), "{}", found.what);
}

#[test]
fn an_inserted_message_belongs_behind_the_others() {
    let saved = talk("Be brief.");
    let new = then([&saved[..1], &[turn("user", "Facts: …")], &saved[1..]].concat(), "Bye");
    let found = explain(&saved, &new);
    assert_eq!(found.reason, Reason::MessageInserted);
    assert!(found.remedy.contains("behind"));
}

#[test]
fn a_changing_id_before_the_messages_is_reported() {
    let found = explain(&talk("Session 8f3b039c1f0d"), &talk("Session 9d3679833d6e"));
    assert_eq!(found.reason, Reason::ChangingId);
}

#[test]
fn a_clock_in_the_last_message_is_not_reported() {
    let ask = |time: &str| then(talk("Be brief."), &format!("It is {time}. Go on."));
    let found = explain(&ask("10:41"), &ask("10:42"));
    assert_eq!(found.reason, Reason::MessageEdited);
    assert!(found.remedy.starts_with("none is needed"));
}

#[test]
fn other_differences_are_reported_by_their_place() {
    let saved = talk("Be brief.");
    assert_eq!(explain(&saved, &talk("Be kind.")).reason, Reason::InstructionsChanged);
    let mut edited = then(saved.clone(), "Bye");
    edited[1] = turn("user", "Good day");
    assert_eq!(explain(&saved, &edited).reason, Reason::MessageEdited);
    let mut edited = then(saved.clone(), "Bye");
    edited[2] = turn("assistant", "Hm.");
    assert_eq!(explain(&saved, &edited).reason, Reason::AnotherAnswer);
}

#[test]
fn reasoning_that_the_template_omits_is_reported() {
    let mut saved = talk("Be brief.");
    saved[4] = turn("assistant", "<think>\nHm.\n</think>\nFine.");
    let found = explain(&saved, &then(talk("Be brief."), "Bye"));
    assert_eq!(found.reason, Reason::ReasoningLeftOut);
}

#[test]
fn the_same_text_in_other_tokens_is_reported() {
    let model = FakeModel::new();
    let prompt = cut("<|im_start|>user\nHello<|im_end|>\n");
    let written = model.tokenize("<|im_start|>user\nHello", false, false);
    let saved: Vec<Token> = written.into_iter().chain(cut("<|im_end|>")).collect();
    let miss = MissReason::Differs { at: 0, saved: saved.into() };
    let subject = Subject { segments: segments(&prompt), prompt, ..Subject::default() };
    let report = report(TokenCounts::default(), Some(miss));
    let found = Explanation::of(&subject, &report, model.vocabulary()).unwrap();
    assert_eq!(found.reason, Reason::CutOtherwise);
}

#[test]
fn a_miss_of_files_has_no_excerpts() {
    let model = FakeModel::new();
    let subject = Subject { prompt: vec![Token(0); 100], remembered: 90, ..Subject::default() };
    let explain = |miss, cached| {
        let tokens = TokenCounts { disk: cached, computed: 100 - cached, ..TokenCounts::default() };
        Explanation::of(&subject, &report(tokens, miss), model.vocabulary())
    };
    let fields = "cache_type_k".to_owned();
    let other = MissReason::OtherFingerprint { found: ModelHash([1; 8]), fields };
    let found = explain(Some(other), 0).unwrap();
    assert_eq!(found.reason, Reason::OtherFingerprint);
    assert!(found.what.contains("cache_type_k") && found.texts.is_none());
    let unusable =
        |reason: &str| Some(MissReason::Unusable { from: 64, reason: reason.to_owned() });
    let found = explain(unusable("its file is damaged: too short"), 64).unwrap();
    assert_eq!((found.reason, found.at), (Reason::Unusable, 64));
    let absent = hob_slots::store::Miss::Absent.to_string();
    assert_eq!(explain(unusable(&absent), 64).unwrap().reason, Reason::Gone);
    assert_eq!(
        explain(Some(MissReason::NotSaved { from: 64 }), 64).unwrap().reason,
        Reason::NotKept
    );
    // The record itself is gone: the engine knows nothing of the conversation.
    assert_eq!(explain(None, 0).unwrap().reason, Reason::Gone);
    assert_eq!(explain(None, 89), None);
}
