//! Which messages items become, and which items are refused.

use super::*;

fn read(items: Value) -> Input {
    Input::parse(&items).unwrap()
}

#[test]
fn a_text_is_the_user_s_message() {
    let read = read(json!("Hi"));
    assert_eq!(read.messages, [json!({"role": "user", "content": "Hi"})]);
    assert_eq!(read.paths, ["input"]);
}

#[test]
fn the_texts_of_one_stored_answer_become_one_message() {
    let said = |id: &str, text: &str| {
        let part = json!({"type": "output_text", "text": text});
        json!({"type": "message", "role": "assistant", "id": id, "content": [part]})
    };
    let thought = |id: &str, text: &str| {
        let part = json!({"type": "reasoning_text", "text": text});
        json!({"type": "reasoning", "id": id, "content": [part]})
    };
    let read = read(json!([
        said("msg_42_a", "One."),
        thought("rs_42_a", "hm"),
        said("msg_42.1_a", " Two."),
        thought("rs_42.1_a", "so"),
        {"type": "function_call", "id": "fc_42.0_a", "call_id": "c1", "name": "f", "arguments": "{}"},
        said("msg_42.2_a", "!"),
        said("msg_43_a", "Another"),
        said("msg_44.1_a", "one"),
    ]));
    let calls = json!([tool_call("c1", "f", "{}")]);
    let whole = json!({"role": "assistant", "content": "One. Two.!", "reasoning_content": "hmso",
        "tool_calls": calls});
    let of = |text: &str| json!({"role": "assistant", "content": [{"type": "text", "text": text}]});
    assert_eq!(read.messages, [whole, of("Another"), of("one")]);
    assert_eq!(read.paths, ["input[0]", "input[6]", "input[7]"]);
}

#[test]
fn a_hundred_thousand_texts_of_one_answer_are_joined() {
    const COUNT: usize = 100_000;
    let part = json!({"type": "output_text", "text": "a".repeat(50)});
    let said =
        json!({"type": "message", "role": "assistant", "id": "msg_42.1_a", "content": [part]});
    let part = json!({"type": "reasoning_text", "text": "b".repeat(50)});
    let thought = json!({"type": "reasoning", "id": "rs_42.1_a", "content": [part]});
    let items = [vec![said; COUNT], vec![thought; COUNT]].concat();
    let read = read(items.into());
    let bytes = |field: &str| read.messages[0][field].as_str().unwrap().len();
    assert_eq!(["content", "reasoning_content"].map(bytes), [50 * COUNT; 2]);
}

#[test]
fn the_items_of_an_answer_become_one_message() {
    let items = json!([
        {"role": "user", "content": [{"type": "input_text", "text": "Light?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [],
         "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
         "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "on"},
        {"type": "function_call_output", "call_id": "c2",
         "output": [{"type": "input_text", "text": "off"}]},
        {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "left alone"}]},
        {"role": "user", "content": "Go on"},
    ]);
    let read = read(items);
    let answer = json!({
        "role": "assistant", "content": [{"type": "text", "text": "Yes."}],
        "reasoning_content": "hm",
        "tool_calls": [tool_call("c1", "f", "{}"), tool_call("c2", "f", "{}")],
    });
    assert_eq!(read.messages[1], answer);
    assert_eq!(read.messages[2]["content"], "on");
    assert_eq!(read.messages[3]["content"][0]["text"], "off");
    assert_eq!(read.messages[4]["tool_calls"], json!([tool_call("c3", "f", "{}")]));
    assert_eq!(read.messages[5], json!({"role": "user", "content": "Go on"}));
    assert_eq!(
        read.paths,
        ["input[0]", "input[1]", "input[5]", "input[6]", "input[7]", "input[9]"]
    );
}

#[test]
fn a_call_of_a_custom_tool_is_that_of_a_function_with_one_argument() {
    let read = read(json!([
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "a\n\"b\""},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    ]));
    let call = tool_call("c1", "patch", r#"{"input":"a\n\"b\""}"#);
    assert_eq!(read.messages[0]["tool_calls"], json!([call]));
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "done"});
    assert_eq!(read.messages[1], result);
}

#[test]
fn a_call_of_a_namespace_is_that_of_the_function_which_the_chat_offers() {
    let read = read(json!([{"type": "function_call", "call_id": "c1", "namespace": "home",
                            "name": "f", "arguments": "{}"}]));
    assert_eq!(read.messages[0]["tool_calls"], json!([tool_call("c1", "home__f", "{}")]));
}

#[test]
fn of_what_another_server_ran_the_text_is_read() {
    let read = read(json!([
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "status": "completed",
         "results": [{"filename": "a.md", "text": "A", "score": 1}, {"text": "B"}]},
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1+1",
         "outputs": [{"type": "image", "url": "x"}, {"type": "logs", "logs": "2"}]},
        {"type": "code_interpreter_call", "id": "ci_2", "code": "1+1", "outputs": null},
        {"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "error": "down"},
        {"type": "mcp_list_tools", "id": "l", "server_label": "x", "tools": []},
        {"type": "image_generation_call", "id": "ig_1", "result": "AA=="},
        {"type": "computer_call", "id": "c", "call_id": "c", "action": {"type": "click"}},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        {"type": "tool_search_call", "execution": "server", "call_id": null, "arguments": {}},
        {"type": "tool_search_output", "execution": "server", "call_id": null, "tools": []},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "search_of_tomorrow_call", "id": "s", "status": "completed"},
        {"type": "acme:trace", "call_id": "t"},
        {"type": "note", "content": [{"type": "x", "text": "Noted."}]},
        {"role": "assistant", "content": "So."},
    ]));
    let told: Vec<(&str, &str)> = read
        .messages
        .iter()
        .map(|it| (it["role"].as_str().unwrap(), it["content"].as_str().unwrap_or_default()))
        .collect();
    let expected = [
        ("user", "Hi"),
        ("assistant", ""),
        ("tool", "a.md\nA\n\nB"),
        ("assistant", ""),
        ("tool", "2"),
        ("assistant", ""),
        ("tool", "Error: down"),
        ("user", "Noted."),
        ("assistant", "So."),
    ];
    assert_eq!(told, expected);
    let call = tool_call("fs_1", "file_search", r#"{"queries":["q"]}"#);
    assert_eq!(read.messages[1]["tool_calls"], json!([call]));
    assert_eq!(read.messages[1]["reasoning_content"], "hm");
    assert_eq!(read.paths[7], "input[16]");
}

#[test]
fn an_item_with_a_mistyped_type_is_refused_by_its_name() {
    for item in [
        json!({"type": "functon_call", "id": "fc_1", "status": "completed", "call_id": "c",
               "name": "f", "arguments": "{}"}),
        json!({"type": "function_call_outptu", "call_id": "c", "output": "on"}),
        json!({"type": "mesage", "role": "assistant", "content": "Hello"}),
        json!({"type": "reasonning", "summary": [{"type": "summary_text", "text": "hm"}]}),
        json!({"type": "nothing"}),
    ] {
        let error = Input::parse(&json!([item])).expect_err(&item.to_string());
        let named = format!("`{}`", item["type"].as_str().unwrap());
        assert!(error.message.contains(&named), "{}", error.message);
        assert!(error.message.contains("function_call_output"), "{}", error.message);
        let (param, code) = (error.param.as_deref(), error.code);
        assert_eq!((param, code), (Some("input[0].type"), Some("invalid_value")));
    }
}

#[test]
fn each_wrong_item_is_named() {
    for (item, param) in [
        (json!(1), "input[0]"),
        (json!({}), "input[0].type"),
        (
            json!({"type": "tool_search_call", "execution": "client", "call_id": "c",
                   "arguments": "x"}),
            "input[0].arguments",
        ),
        (json!({"role": "user"}), "input[0].content"),
        (json!({"role": "user", "content": 1}), "input[0].content"),
        (
            json!({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}),
            "input[0].content[0].type",
        ),
        (json!({"type": "function_call", "name": "f", "arguments": "{}"}), "input[0].call_id"),
        (json!({"type": "custom_tool_call", "call_id": "c", "name": "f"}), "input[0].input"),
        (json!({"type": "local_shell_call", "call_id": "c"}), "input[0].action"),
        (
            json!({"type": "local_shell_call", "call_id": "c", "action": {"command": "ls"}}),
            "input[0].action.command",
        ),
        (json!({"type": "local_shell_call_output", "output": "x"}), "input[0].id"),
        (json!({"type": "function_call_output", "call_id": "c"}), "input[0].output"),
        (json!({"type": "function_call_output", "call_id": "c", "output": {}}), "input[0].output"),
    ] {
        let error = Input::parse(&json!([item])).expect_err(&item.to_string());
        assert_eq!(error.param.as_deref(), Some(param), "{item}");
    }
    assert_eq!(Input::parse(&json!(7)).unwrap_err().param.as_deref(), Some("input"));
}
