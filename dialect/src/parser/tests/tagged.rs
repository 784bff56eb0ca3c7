//! Calls in tags, whose arguments are read as JSON.

use super::*;

#[test]
fn a_text_in_a_tag_is_streamed_and_quoted() {
    let schema = serde_json::json!({"properties": {"text": {"type": "string"}}});
    let tools = Signatures::new([("f".to_owned(), schema)]);
    let mut parser = Parser::new(Dialect::QwenCoder, Some(tools), false);
    parser.push("<tool_call>\n<function=f>\n<parameter=text>\nsay \"hi\"");
    let more = Part::ToolCallArguments { index: 0, json_fragment: " to".to_owned() };
    assert_eq!(parser.push(" to"), [more]);
}

#[test]
fn tags_are_read_as_json() {
    let answer = "Let me see.\n<tool_call>\n<function=f>\n<parameter=text>\n1 \"2\"\n3\n\
                  </parameter>\n<parameter=n>\n4\n</parameter>\n</function>\n</tool_call>";
    let mut expected = vec![content("Let me see.")];
    expected.extend(call(0, "f", r#"{"text": "1 \"2\"\n3", "n": 4}"#));
    assert_eq!(parts_of_tool(Dialect::QwenCoder, answer), expected);
    let answer = "<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>4</arg_value>\n</tool_call>";
    assert_eq!(parts_of_tool(Dialect::Glm, answer), call(0, "f", r#"{"text": "4"}"#));
}

#[test]
fn a_mark_within_a_value_ends_it_only_where_the_call_goes_on() {
    let xml = "<a>\n  <parameter>1</parameter>\n</a>";
    let answer = format!(
        "<tool_call>\n<function=f>\n<parameter=text>\n{xml}\n</parameter>\n<parameter=n>\n\
         [\"</parameter>\"]\n</parameter>\n</function>\n</tool_call>So."
    );
    let json = r#"{"text": "<a>\n  <parameter>1</parameter>\n</a>", "n": ["</parameter>"]}"#;
    let mut expected = call(0, "f", json).to_vec();
    expected.push(content("So."));
    assert_eq!(parts_of_tool(Dialect::QwenCoder, &answer), expected);
    for (value, behind, json) in [
        ("<parameter=text>\na\n", "", r#"{"text": "a""#),
        ("<parameter=text>\na\n", "\n</func", r#"{"text": "a""#),
        ("<parameter=n>\n4\n", "\n<para", r#"{"n": 4"#),
        ("<parameter=text>\na\n", "</b>", r#"{"text": "a\n</parameter></b>"#),
    ] {
        let answer = format!("<tool_call>\n<function=f>\n{value}</parameter>{behind}");
        let expected = &call(0, "f", json)[..2];
        assert_eq!(parts_of_tool(Dialect::QwenCoder, &answer), expected, "{answer}");
    }
    let answer = "<tool_call>\n<function=f>\n<parameter=text>\na\n</parameter>\n</tool_call>";
    assert_eq!(parts_of_tool(Dialect::QwenCoder, answer), call(0, "f", r#"{"text": "a"}"#));
}

#[test]
fn digits_are_a_text_where_the_schema_allows_no_number() {
    let optional = serde_json::json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
    let schema = serde_json::json!({"properties": {"zip": optional, "note": optional}});
    let tools = Signatures::new([("f".to_owned(), schema)]);
    let answer = "<tool_call>\n<function=f>\n<parameter=zip>\n01234\n</parameter>\n\
                  <parameter=note>\n12345\n</parameter>\n<parameter=other>\n12345\n</parameter>\n\
                  </function>\n</tool_call>";
    let parser = Parser::new(Dialect::QwenCoder, Some(tools), false);
    let expected = call(0, "f", r#"{"zip": "01234", "note": "12345", "other": 12345}"#);
    assert_eq!(read(parser, [answer]), expected);
}

#[test]
fn digits_are_a_text_where_all_alternatives_refer_to_texts() {
    let either = serde_json::json!({"anyOf": [{"$ref": "#/$defs/zip"}, {"$ref": "#/$defs/name"}]});
    let texts = serde_json::json!({"zip": {"enum": ["01234"]}, "name": {"type": "string"}});
    let schema = serde_json::json!({"properties": {"to": either}, "$defs": texts});
    let tools = Signatures::new([("f".to_owned(), schema)]);
    let answer = "<tool_call>\n<function=f>\n<parameter=to>\n12345\n</parameter>\n\
                  </function>\n</tool_call>";
    let parser = Parser::new(Dialect::QwenCoder, Some(tools), false);
    assert_eq!(read(parser, [answer]), call(0, "f", r#"{"to": "12345"}"#));
}

#[test]
fn digits_are_a_text_where_the_schema_refers_to_a_text_or_null() {
    let nullable = serde_json::json!({"anyOf": [{"$ref": "#/$defs/Name"}, {"type": "null"}]});
    let schema = serde_json::json!({
        "properties": {"name": nullable, "none": nullable},
        "$defs": {"Name": {"type": "string"}},
    });
    let tools = Signatures::new([("f".to_owned(), schema)]);
    let answer = "<tool_call>\n<function=f>\n<parameter=name>\n12345\n</parameter>\n\
                  <parameter=none>\nnull\n</parameter>\n</function>\n</tool_call>";
    let parser = Parser::new(Dialect::QwenCoder, Some(tools), false);
    assert_eq!(read(parser, [answer]), call(0, "f", r#"{"name": "12345", "none": null}"#));
}

#[test]
fn digits_are_a_text_where_a_described_parameter_refers_to_a_text() {
    let schema = serde_json::json!({
        "properties": {"zip": {"description": "A code.", "allOf": [{"$ref": "#/definitions/Zip"}]}},
        "definitions": {"Zip": {"type": "string"}},
    });
    let tools = Signatures::new([("f".to_owned(), schema)]);
    let answer = "<tool_call>\n<function=f>\n<parameter=zip>\n12345\n</parameter>\n\
                  </function>\n</tool_call>";
    let parser = Parser::new(Dialect::QwenCoder, Some(tools), false);
    assert_eq!(read(parser, [answer]), call(0, "f", r#"{"zip": "12345"}"#));
}

#[test]
fn a_section_mark_without_a_call_is_content() {
    let answer = "The mark <tool_call> opens a call.";
    assert_eq!(parts_of_tool(Dialect::QwenCoder, answer), [content(answer)]);
}

#[test]
fn tags_within_tags_are_lists_and_objects() {
    let mark = "]<]minimax[>[";
    let value = format!(
        "{mark}<o>{mark}<l>{mark}<item>a{mark}</item>{mark}</l>{mark}<o>1{mark}</o>{mark}</o>"
    );
    let answer = format!("{mark}<invoke name=\"f\">{value}{mark}</invoke>");
    let expected = call(0, "f", r#"{"o": {"l":["a"],"o":1}}"#);
    assert_eq!(parts_of_tool(Dialect::MiniMax3, &answer), expected);
    // Deeper than any value: a text.
    let deep = format!("{mark}<o>").repeat(1000) + &format!("{mark}</o>").repeat(1000);
    let answer = format!("{mark}<invoke name=\"f\">{deep}{mark}</invoke>");
    assert_eq!(parts_of_tool(Dialect::MiniMax3, &answer).len(), 3);
}

#[test]
fn values_within_tags_have_the_types_of_the_schemas_that_are_referred_to() {
    let order = serde_json::json!({"type": "object", "properties": {
        "count": {"$ref": "#/$defs/Count"},
        "next": {"anyOf": [{"$ref": "#/$defs/Order"}, {"type": "null"}]},
        "note": {"anyOf": [{"$ref": "#/$defs/Name"}, {"type": "null"}]},
        "tags": {"$ref": "#/$defs/Names"},
        "named": {"additionalProperties": {"$ref": "#/$defs/Name"}, "properties": {
            "count": {"$ref": "#/$defs/Count"},
        }},
        "listed": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Names"}},
    }});
    let schema = serde_json::json!({
        "properties": {"o": {"anyOf": [{"$ref": "#/$defs/Order"}, {"type": "null"}]}},
        "$defs": {
            "Order": order,
            "Count": {"type": "integer"},
            "Name": {"type": "string"},
            "Names": {"type": "array", "items": {"$ref": "#/$defs/Name"}},
        },
    });
    for (tags, expected) in [
        ("<count>7</count><note>12</note>", r#"{"count":7,"note":"12"}"#),
        ("<note>null</note>", r#"{"note":null}"#),
        ("<tags><item>1</item><item>true</item></tags>", r#"{"tags":["1","true"]}"#),
        ("<tags></tags><count>7</count>", r#"{"tags":[],"count":7}"#),
        ("<named><a>1</a><count>2</count></named>", r#"{"named":{"a":"1","count":2}}"#),
        ("<named><item>1</item></named>", r#"{"named":{"item":"1"}}"#),
        ("<listed><a><item>1</item></a></listed>", r#"{"listed":{"a":["1"]}}"#),
        (
            "<next><next><note>12</note></next></next><next2><note>12</note></next2>",
            r#"{"next":{"next":{"note":"12"}},"next2":{"note":12}}"#,
        ),
    ] {
        let mark = "]<]minimax[>[";
        let tags = format!("<o>{tags}</o>").replace('<', &format!("{mark}<"));
        let answer = format!("{mark}<invoke name=\"f\">{tags}{mark}</invoke>");
        let tools = Signatures::new([("f".to_owned(), schema.clone())]);
        let parser = Parser::new(Dialect::MiniMax3, Some(tools), false);
        assert_eq!(read(parser, [&*answer]), call(0, "f", &format!("{{\"o\": {expected}}}")));
    }
}

#[test]
fn attributes_may_follow_a_name() {
    let answer = "<|open|>think<|sep|>Hm.<|open|>response<|sep|>On it.<|close|>response<|sep|>\
                  <|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument \
                  key=\"text\" type=\"string\"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>\
                  <|close|>tools<|sep|><|close|>message<|sep|>";
    let mut expected = vec![reasoning("Hm."), content("On it.")];
    expected.extend(call(0, "f", r#"{"text": "1"}"#));
    assert_eq!(parts_of_tool(Dialect::KimiK3, answer), expected);
}
