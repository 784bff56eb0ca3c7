//! OpenAI's Responses API: tools that are no functions, as Codex sends them.

use serde_json::{Value, json};

use crate::common::{Plan, World};
use crate::responses::{
    CALLED, ROUTE, events, joined, kinds, light, respond, say, stream_of, text,
};

/// Shows Hermes' form of calls.
const TEMPLATE: &str = "{# <tool_call> #}{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}\
    {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}\
    {% for call in message.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ call.function.name }}\", \
    \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}\
    {{ '<|im_start|>assistant\n' }}";

pub(crate) fn with_calls() -> World {
    Plan::new().chat_template(TEMPLATE).start()
}

/// The question that makes the fake model call this function.
pub(crate) fn calling(name: &str, arguments: Value) -> String {
    let call = format!("{{\"name\": \"{name}\", \"arguments\": {arguments}}}");
    say(&format!("<tool_call>\n{call}\n</tool_call>"))
}

/// Answers a call, over its response and with the whole history: the prompts are equal.
fn assert_answered(world: &World, asked: &Value, response: &Value, output: &Value) {
    let more = [output.clone(), json!({"role": "user", "content": say("Done.")})];
    let next = respond(
        world,
        json!({"previous_response_id": response["id"], "tools": asked["tools"], "input": more}),
    );
    assert_eq!(text(&next), "Done.");
    let mut whole = vec![json!({"role": "user", "content": asked["input"]})];
    whole.extend(response["output"].as_array().unwrap().iter().cloned());
    whole.extend(more);
    let again = respond(world, json!({"store": false, "tools": asked["tools"], "input": whole}));
    assert_eq!(again["usage"]["input_tokens"], next["usage"]["input_tokens"]);
    let items =
        world.get(&format!("{ROUTE}/{}/input_items?order=asc", next["id"].as_str().unwrap()));
    let items = items.json()["data"].clone();
    assert_eq!(items[1], response["output"][0]);
    assert_eq!((&items[2]["type"], &items[2]["output"]), (&output["type"], &output["output"]));
}

#[test]
fn a_function_of_a_namespace_is_called_by_both_names() {
    let world = with_calls();
    let home =
        json!({"type": "namespace", "name": "home", "description": "Lamps.", "tools": [light()]});
    let body = json!({"input": calling("home__light", json!({"room": "hall"})),
                      "tools": [light(), home]});
    let response = respond(&world, body.clone());
    let call = &response["output"][0];
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("light")));
    assert_eq!((&call["namespace"], &call["status"]), (&json!("home"), &json!("completed")));
    assert_eq!(
        (&response["tools"], response["output"].as_array().unwrap().len()),
        (&body["tools"], 1)
    );

    let events = events(&world, body.clone());
    assert_eq!(kinds(&events), stream_of(&[CALLED]));
    for event in [&events[2], &events[events.len() - 2]] {
        assert_eq!(
            (&event["item"]["name"], &event["item"]["namespace"]),
            (&json!("light"), &json!("home"))
        );
    }
    let stored = world.get(&format!("{ROUTE}/{}", response["id"].as_str().unwrap())).json();
    assert_eq!(stored["output"], response["output"]);
    let output =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "on"});
    assert_answered(&world, &body, &response, &output);

    let choice = json!({"type": "function", "name": "light", "namespace": "home"});
    let body = json!({"input": "Hello", "tools": body["tools"], "tool_choice": choice, "seed": 4,
                      "max_output_tokens": 400});
    assert_eq!(respond(&world, body)["output"][0]["namespace"], "home");
}

/// As Codex sends its tools to OpenAI's newest models.
#[test]
fn tools_among_the_items_of_the_input_are_offered_as_those_of_the_request() {
    let world = with_calls();
    let exec = json!({"type": "custom", "name": "exec", "description": "Runs a script."});
    let functions = json!({"type": "namespace", "name": "functions", "description": "",
                           "tools": [exec, light()]});
    let item = json!({"type": "additional_tools", "id": "at_1", "role": "developer",
                      "tools": [functions, {"type": "web_search"}]});
    let asked = calling("functions__exec", json!({"input": "ls -a"}));
    let question = json!({"role": "user", "content": asked});
    let ask = |items: Value| respond(&world, json!({"input": items, "store": false}));
    let response = ask(json!([item, question]));
    let call = &response["output"][0];
    assert_eq!((&call["type"], &call["name"]), (&json!("custom_tool_call"), &json!("exec")));
    assert_eq!((&call["namespace"], &call["input"]), (&json!("functions"), &json!("ls -a")));

    let body = json!({"input": [question], "tools": [functions], "store": false});
    let prompt_tokens = &response["usage"]["input_tokens"];
    assert_eq!(&respond(&world, body)["usage"]["input_tokens"], prompt_tokens);
    // A later item has the same tool in other words, and nothing is offered twice.
    let exec = json!({"type": "custom", "name": "exec", "description": "Runs one script."});
    let changed = json!({"type": "namespace", "name": "functions", "tools": [exec]});
    let later = json!({"type": "additional_tools", "role": "developer", "tools": [changed]});
    let again = ask(json!([item, question, later]));
    assert_eq!(again["output"][0]["type"], "custom_tool_call");
    let grown = again["usage"]["input_tokens"].as_u64().unwrap();
    assert_eq!(grown, prompt_tokens.as_u64().unwrap() + "one ".len() as u64 - "a ".len() as u64);

    let unknown = json!({"type": "additional_tools", "tools": [{"type": "shell"}]});
    let refused = world.post(ROUTE, json!({"input": [question, unknown]}));
    assert_eq!(
        (refused.status, &refused.error()["param"]),
        (400, &json!("input[1].tools[0].type"))
    );
}

#[test]
fn what_agents_write_to_each_other_is_a_message_of_the_user() {
    let world = World::new();
    let told = |content: Value| {
        json!({"type": "agent_message", "id": "amsg_1", "author": "/root",
               "recipient": "/root/child", "content": content})
    };
    let ask = |item: Value| {
        let input = json!([{"role": "user", "content": "Hi"}, item]);
        respond(&world, json!({"input": input, "store": false, "max_output_tokens": 20}))
    };
    // The task is an argument of the call by which an agent has begun this one.
    let task = json!({"type": "encrypted_content", "encrypted_content": say("Hello.")});
    assert_eq!(text(&ask(told(json!([task])))), "Hello.");
    let head = json!({"type": "input_text", "text": "Message Type: NEW_TASK\nPayload:"});
    let plain = json!({"type": "input_text", "text": say("Hello.")});
    let as_user = ask(json!({"role": "user", "content": [head, plain]}));
    let as_agent = ask(told(json!([head, task])));
    assert_eq!(as_agent["usage"]["input_tokens"], as_user["usage"]["input_tokens"]);

    let body = json!({"input": [{"role": "user", "content": [task]}]});
    let param = world.post(ROUTE, body).error()["param"].clone();
    assert_eq!(param, "input[0].content[0].type", "a message of the user has none");
}

#[test]
fn a_picture_in_a_result_becomes_words() {
    let world = with_calls();
    let call = json!({"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"});
    let asked = |part: Value| {
        let output = json!({"type": "function_call_output", "call_id": "c", "output": [part]});
        let input = json!([{"role": "user", "content": "Look"}, call, output]);
        let body = json!({"input": input, "store": false, "max_output_tokens": 4});
        respond(&world, body)["usage"]["input_tokens"].clone()
    };
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,AA=="});
    let words = "(The tool returned a picture. This model reads text alone.)";
    assert_eq!(asked(picture), asked(json!({"type": "input_text", "text": words})));
}

const FREEFORM: &[&str] = &["custom_tool_call_input.delta", "custom_tool_call_input.done"];

#[test]
fn a_custom_tool_is_called_with_a_text() {
    let world = with_calls();
    let input = "*** Begin Patch\n+ \"é\" \\ 😀\n*** End Patch\n";
    let patch = json!({"type": "custom", "name": "patch", "description": "Edits files."});
    let body =
        json!({"input": calling("patch", json!({"input": input})), "tools": [light(), patch]});
    let response = respond(&world, body.clone());
    let [call] = response["output"].as_array().unwrap().as_slice() else { panic!("{response}") };
    assert_eq!((&call["type"], &call["name"]), (&json!("custom_tool_call"), &json!("patch")));
    assert_eq!((&call["input"], &call["status"]), (&json!(input), &json!("completed")));
    assert_eq!((call.get("arguments"), call.get("namespace")), (None, None));
    assert_eq!((&response["status"], &response["tools"]), (&json!("completed"), &body["tools"]));

    let events = events(&world, body.clone());
    assert_eq!(kinds(&events), stream_of(&[FREEFORM]));
    assert_eq!(events[2]["item"]["input"], "");
    assert_eq!(joined(&events, "response.custom_tool_call_input.delta"), input);
    let deltas = events.iter().filter(|it| it["type"] == "response.custom_tool_call_input.delta");
    assert!(deltas.count() > 1, "they come as the model writes them");
    let done =
        events.iter().find(|it| it["type"] == "response.custom_tool_call_input.done").unwrap();
    assert_eq!((&done["input"], &done["item_id"]), (&json!(input), &events[2]["item"]["id"]));
    assert_eq!(events[events.len() - 2]["item"]["input"], input);

    let stored = world.get(&format!("{ROUTE}/{}", response["id"].as_str().unwrap())).json();
    assert_eq!(stored["output"], response["output"]);
    let output =
        json!({"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"});
    assert_answered(&world, &body, &response, &output);
    let reference = json!({"type": "item_reference", "id": call["id"]});
    let user = |text: &Value| json!({"role": "user", "content": text});
    let referred = [user(&body["input"]), reference, output, user(&json!(say("Well.")))];
    let body = json!({"input": referred, "tools": body["tools"], "store": false});
    assert_eq!(text(&respond(&world, body)), "Well.");
}

#[test]
fn the_local_shell_is_called_with_an_action() {
    let world = with_calls();
    let shell = json!({"type": "local_shell"});
    let body = json!({"input": calling("local_shell", json!({"command": ["ls", "-a"]})),
                      "tools": [light(), shell]});
    let response = respond(&world, body.clone());
    let call = &response["output"][0];
    let action = json!({"type": "exec", "command": ["ls", "-a"], "env": {}, "timeout_ms": null,
                        "user": null, "working_directory": null});
    assert_eq!((&call["type"], &call["action"]), (&json!("local_shell_call"), &action));
    assert_eq!((call.get("name"), call.get("arguments")), (None, None));

    const WITHOUT_EVENTS: &[&str] = &[];
    let events = events(&world, body.clone());
    assert_eq!(kinds(&events), stream_of(&[WITHOUT_EVENTS]));
    assert_eq!(events[2]["item"]["action"]["command"], json!([]));
    assert_eq!(events[3]["item"]["action"], action);
    let output =
        json!({"type": "local_shell_call_output", "id": call["call_id"], "output": "a\nb"});
    assert_answered(&world, &body, &response, &output);

    let body = json!({"input": "Hello", "tools": body["tools"], "tool_choice": shell, "seed": 4,
                      "max_output_tokens": 400});
    assert_eq!(respond(&world, body)["output"][0]["type"], "local_shell_call");
}

/// As Codex finds the tools of its servers.
#[test]
fn a_search_for_tools_that_the_client_runs_offers_what_it_finds() {
    let world = with_calls();
    let parameters = json!({"type": "object", "properties": {"query": {"type": "string"}},
                            "required": ["query"]});
    let search = json!({"type": "tool_search", "execution": "client", "description": "Finds tools.",
                        "parameters": parameters});
    let body = json!({"input": calling("tool_search", json!({"query": "mail"})),
                      "tools": [light(), search]});
    let response = respond(&world, body.clone());
    let call = &response["output"][0];
    assert_eq!(
        (&call["type"], &call["execution"]),
        (&json!("tool_search_call"), &json!("client")),
        "{response}"
    );
    assert_eq!(call["arguments"], json!({"query": "mail"}));
    assert_eq!(response["tools"], body["tools"]);
    const WITHOUT_EVENTS: &[&str] = &[];
    let events = events(&world, body.clone());
    assert_eq!(kinds(&events), stream_of(&[WITHOUT_EVENTS]));
    assert_eq!(events[3]["item"]["arguments"], json!({"query": "mail"}));

    let send = json!({"type": "function", "name": "send", "parameters": {"type": "object"}});
    let mail = json!({"type": "namespace", "name": "mail", "tools": [send]});
    let found = json!({"type": "tool_search_output", "call_id": call["call_id"], "status": "completed",
                       "execution": "client", "tools": [mail]});
    let asked = json!({"role": "user", "content": calling("mail__send", json!({}))});
    let input = json!([{"role": "user", "content": body["input"]}, call, found, asked]);
    let next = json!({"input": input, "tools": body["tools"], "store": false});
    let called = respond(&world, next)["output"][0].clone();
    assert_eq!(
        (&called["type"], &called["namespace"], &called["name"]),
        (&json!("function_call"), &json!("mail"), &json!("send")),
        "{called}"
    );
}

/// A conversation that another server began.
#[test]
fn items_of_tools_that_another_server_ran_are_read_as_far_as_they_have_text() {
    let world = with_calls();
    let tokens = |items: Vec<Value>| {
        let mut input = vec![json!({"role": "user", "content": "Look"})];
        input.extend(items);
        input.push(json!({"role": "user", "content": say("Well.")}));
        let response = respond(&world, json!({"input": input, "store": false}));
        assert_eq!(text(&response), "Well.");
        response["usage"]["input_tokens"].as_u64().unwrap()
    };
    let plain = tokens(vec![]);
    for left_out in [
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
               "action": {"type": "search", "query": "lamps"}}),
        json!({"type": "file_search_call", "id": "fs_1", "queries": ["lamps"], "results": null}),
        json!({"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": null}),
        json!({"type": "image_generation_call", "id": "ig_1", "result": "AA=="}),
        json!({"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "wait"}}),
        json!({"type": "tool_search_call", "execution": "server", "call_id": null, "arguments": {}}),
        json!({"type": "mcp_list_tools", "id": "l", "server_label": "x", "tools": []}),
        json!({"type": "of_tomorrow", "id": "x", "encrypted_content": "AA=="}),
    ] {
        assert_eq!(tokens(vec![left_out.clone()]), plain, "{left_out}");
    }
    let called = |name: &str, arguments: Value, output: &str| {
        let arguments = arguments.to_string();
        let call =
            json!({"type": "function_call", "call_id": "c", "name": name, "arguments": arguments});
        tokens(vec![
            call,
            json!({"type": "function_call_output", "call_id": "c", "output": output}),
        ])
    };
    let results = json!([{"filename": "a.md", "text": "The lamp is on.", "score": 0.5}]);
    let searched = json!({"type": "file_search_call", "id": "fs_1", "queries": ["lamps"],
                          "status": "completed", "results": results});
    let expected = called("file_search", json!({"queries": ["lamps"]}), "a.md\nThe lamp is on.");
    assert_eq!(tokens(vec![searched]), expected);
    let asked = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "home", "name": "light",
                       "arguments": "{\"room\":\"hall\"}", "output": "on", "error": null});
    assert_eq!(tokens(vec![asked]), called("light", json!({"room": "hall"}), "on"));
    let unknown = json!({"type": "of_tomorrow", "id": "x", "text": "It is late."});
    let said = json!({"role": "user", "content": "It is late."});
    assert_eq!(tokens(vec![unknown]), tokens(vec![said]));
}

#[test]
fn the_text_of_a_cut_call_is_what_the_model_wrote() {
    let world = with_calls();
    let patch = json!({"type": "custom", "name": "patch"});
    let body = json!({"input": calling("patch", json!({"input": "a\n".repeat(40)})), "tools": [patch],
                      "max_output_tokens": 80});
    let response = respond(&world, body.clone());
    let call = &response["output"][0];
    assert_eq!(
        (&response["status"], &call["status"]),
        (&json!("incomplete"), &json!("incomplete"))
    );
    let input = call["input"].as_str().unwrap();
    assert!(input.len() > 9 && "a\n".repeat(40).starts_with(input), "{input}");
    let events = events(&world, body);
    assert_eq!(joined(&events, "response.custom_tool_call_input.delta"), input);
    assert_eq!(events[events.len() - 2]["item"]["input"], input);
}

#[test]
fn the_text_of_a_custom_tool_has_the_form_that_it_demands() {
    let world = with_calls();
    let choice = json!({"type": "custom", "name": "code"});
    for (syntax, definition) in [
        ("regex", "[0-9]{3}\n[ab]"),
        ("lark", "start: DIGIT ~ 3 LF (\"a\" | \"b\")\n%import common (DIGIT, LF)"),
    ] {
        let format = json!({"type": "grammar", "syntax": syntax, "definition": definition});
        let code = json!({"type": "custom", "name": "code", "format": format});
        let body = json!({"input": "Hello", "tools": [light(), code], "tool_choice": choice,
                          "seed": 4, "temperature": 1, "max_output_tokens": 400});
        let call = respond(&world, body)["output"][0].clone();
        let input = call["input"].as_str().unwrap_or_else(|| panic!("{call}"));
        let (digits, letter) = input.split_once('\n').unwrap();
        assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{input}");
        assert!(["a", "b"].contains(&letter), "{input}");
    }
}
