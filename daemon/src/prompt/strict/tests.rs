//! What the forms change, in which order they are tried, and how long they take.

use hob_runtime::backend::Model;
use hob_runtime::backend::fake::FakeModel;
use serde_json::json;

use super::*;
use crate::prompt::RendersIn;

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
    let ids =
        |message: &Message| message.calls_made().map(|call| call.id.to_owned()).collect::<Vec<_>>();
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
    let expected = expected.map(|(called, text, reasoning)| (called.to_owned(), text, reasoning));
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
fn a_hundred_thousand_messages_take_a_form() {
    const COUNT: usize = 100_000;
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
}

#[test]
fn results_stand_in_the_order_of_their_calls() {
    let call = |id: &str| json!({"id": id, "function": {"name": id, "arguments": "{}"}});
    let called = |ids: &[&str]| {
        let calls: Vec<Value> = ids.iter().copied().map(call).collect();
        json!({"role": "assistant", "tool_calls": calls})
    };
    let result =
        |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let talk = [
        json!({"role": "user", "content": "Look"}),
        called(&["a", "b"]),
        result("lost", "0"),
        result("b", "2"),
        result("a", "1"),
        called(&["c", "d"]),
        result("c", "3"),
        result("d", "4"),
    ];
    let talk = talk.map(|message| Message::parse(&message, "messages").unwrap());
    let formed = results_in_order(&talk).unwrap();
    let texts = formed.iter().map(Message::text).filter(|text| !text.is_empty());
    assert_eq!(texts.collect::<Vec<_>>(), ["Look", "1", "2", "0", "3", "4"]);
    assert_eq!(results_in_order(&formed), None);

    // Calls of one id, and two results of a call.
    let ids = called(&["a", "b", "a"]);
    for (results, expected) in [
        (vec![result("a", "1"), result("b", "2"), result("a", "3")], None),
        (vec![result("b", "2"), result("a", "1"), result("a", "3")], Some(["1", "2", "3"])),
        (vec![result("a", "1"), result("b", "2"), result("b", "3")], None),
    ] {
        let talk: Vec<Value> = std::iter::once(ids.clone()).chain(results).collect();
        let parse = |message: &Value| Message::parse(message, "messages").unwrap();
        let formed = results_in_order(&talk.iter().map(parse).collect::<Vec<_>>());
        let texts = formed.map(|formed| {
            formed[1..].iter().map(|result| result.text().to_owned()).collect::<Vec<String>>()
        });
        assert_eq!(texts, expected.map(|texts| texts.map(str::to_owned).to_vec()));
    }
}

#[test]
fn the_template_of_gpt_oss_writes_each_of_several_calls() {
    let source = "{# <|channel|><|message|> #}{% for message in messages %}\
                  {% if message.tool_calls %}{{ message.tool_calls[0].function.name }};\
                  {% else %}{{ message.content }};{% endif %}{% endfor %}";
    let model = FakeModel::new();
    let template = Template::new(source, model.vocabulary(), RendersIn::ThisProcess);
    let call = |id: &str| json!({"id": id, "function": {"name": id, "arguments": "{}"}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
    let talk = [
        json!({"role": "user", "content": "Look"}),
        json!({"role": "assistant", "tool_calls": [call("a"), call("b")]}),
        result("b"),
        result("a"),
    ];
    let talk = talk.map(|message| Message::parse(&message, "messages").unwrap());
    let (formed, text) = rendered(&template, Cow::Borrowed(&talk[..]), &[], &Map::new()).unwrap();
    assert_eq!((formed.len(), text.as_str()), (5, "Look;a;a;b;b;"));

    // Two calls with one id.
    let said = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let talk = [
        json!({"role": "user", "content": "Look"}),
        json!({"role": "assistant", "tool_calls": [call("a"), call("b"), call("a")]}),
        said("a", "1"),
        said("b", "2"),
        said("a", "3"),
        said("a", "4"),
    ];
    let talk = talk.map(|message| Message::parse(&message, "messages").unwrap());
    let (_, text) = rendered(&template, Cow::Borrowed(&talk[..]), &[], &Map::new()).unwrap();
    assert_eq!(text, "Look;a;1;b;2;a;3;4;");
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
    let talk =
        [document.clone(), pinned("One", json!({"key": "k"})), pinned("two", json!({"pin": true}))];
    let formed = no_user_twice(&talk).unwrap();
    assert_eq!((&formed[0], formed.len()), (&document, 2));
    let label = Label { key: Some("k".into()), weight: None, pin: Some(true) };
    assert_eq!(formed[1].label(), label);
}
