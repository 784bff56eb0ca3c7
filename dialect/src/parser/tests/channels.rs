//! Answers in channels: reasoning, calls and text.

use super::*;

#[test]
fn channels_are_reasoning_calls_and_text() {
    let answer = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary \
                  to=functions.f <|constrain|>json<|message|>{\"text\": \"a\"}<|call|>";
    let mut expected = vec![reasoning("Hm.")];
    expected.extend(call(0, "f", r#"{"text": "a"}"#));
    assert_eq!(parts_of_tool(Dialect::Harmony, answer), expected);
    let answer = "<|channel|>final<|message|>Yes.<|return|>";
    assert_eq!(parts_of_tool(Dialect::Harmony, answer), [content("Yes.")]);
}

#[test]
fn a_mark_that_begins_no_message_is_text() {
    let long = "a".repeat(600);
    let answer = format!("<|start|>{long}");
    assert_eq!(parts_of_tool(Dialect::Harmony, &answer), [content(&answer)]);
    let answer = format!("<|channel|>analysis<|message|>Hm.<|end|><|start|>{long}");
    let expected = [reasoning("Hm."), content(&format!("<|start|>{long}"))];
    assert_eq!(parts_of_tool(Dialect::Harmony, &answer), expected);
}

#[test]
fn a_recipient_alone_may_begin_a_message() {
    let mut expected = vec![content("I ask >>> f.")];
    expected.extend(call(0, "f", r#"{"text": "a"}"#));
    let answer = "all\nI ask >>> f.>>>f\n{\"text\": \"a\"}";
    assert_eq!(parts_of_tool(Dialect::Functionary32, answer), expected);
    for answer in ["g\n{}", "Hello\nthere", "all of it", "f"] {
        assert_eq!(parts_of_tool(Dialect::Functionary32, answer), [content(answer)]);
    }
    let answer = " to=self<|message|>Hm.<|eom|><|start|>assistant to=f<|message|>\
                  <atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"text\">1\
                  </atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eot|>";
    let mut expected = vec![reasoning("Hm.")];
    expected.extend(call(0, "f", r#"{"text": "1"}"#));
    assert_eq!(parts_of_tool(Dialect::Muse, answer), expected);
}
