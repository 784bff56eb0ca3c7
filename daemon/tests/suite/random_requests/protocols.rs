//! Bodies of the protocols whose messages have many forms: OpenAI's Responses, Anthropic's Messages and Ollama's API.

use serde_json::{Value, json};

use super::bodies::{NAMES, schema};
use super::random::Random;

/// The routes that a model answers. They are asked more often than others.
pub const ROUTES: [&str; 7] = [
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/v1/responses/input_tokens",
    "/api/chat",
    "/api/generate",
];

/// A conversation that is there before the first request. No request deletes it: no path has its name.
pub const STORED: &str = "stored";
/// The row of its answer, the second one of a new database.
pub const STORED_ROW: u64 = 2;

/// The id of an answer, or of an item of one. Most are stored.
fn answer_id(random: &mut Random, kind: &str) -> String {
    match random.below(6) {
        0 => format!("{kind}_3_a"),
        1 => format!("{kind}_0123456789ab"),
        _ => format!("{kind}_{STORED_ROW}_{STORED}"),
    }
}

/// Sets some of the fields.
fn set_some(body: &mut Value, fields: Value, random: &mut Random) {
    let Value::Object(fields) = fields else { unreachable!("fields are an object") };
    for (name, value) in fields {
        if random.one_in(3) {
            body[name] = value;
        }
    }
}

pub fn responses(random: &mut Random) -> Value {
    let question = json!([{"type": "input_text", "text": "Say this: one two"}]);
    let thought = json!([{"type": "reasoning_text", "text": "hm"}]);
    let summary = json!([{"type": "summary_text", "text": "hm"}]);
    let result = json!([{"type": "input_text", "text": "nothing"}]);
    let mut items = vec![
        json!({"role": "developer", "content": "You are brief."}),
        json!({"type": "message", "role": "user", "content": question}),
        json!({"type": "reasoning", "id": "rs_1", "content": thought, "summary": summary}),
        json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look",
               "arguments": "{\"at\": 1}"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": result}),
        json!({"role": "user", "content": "Say this: three", "hob": {"key": "k"}}),
    ];
    if random.one_in(3) {
        items.insert(5, json!({"type": "item_reference", "id": answer_id(random, "msg")}));
    }
    let input = if random.one_in(4) { json!("Say this: one") } else { json!(items) };
    let mut body = json!({"model": "fake", "input": input, "max_output_tokens": 8});
    match random.below(4) {
        0 => body["previous_response_id"] = answer_id(random, "resp").into(),
        1 => body["conversation"] = json!({"id": random.among(&NAMES)}),
        2 => body["store"] = false.into(),
        _ => {}
    }
    if random.one_in(2) {
        let strict = random.one_in(2);
        let look = json!({"type": "function", "name": "look"});
        body["tools"] = json!([
            {"type": "function", "name": "look", "parameters": schema(), "strict": strict},
            {"type": "web_search"},
        ]);
        body["tool_choice"] = match random.below(4) {
            0 => json!("auto"),
            1 => json!("required"),
            2 => json!({"type": "allowed_tools", "mode": "auto", "tools": [look]}),
            _ => look,
        };
    }
    let form = json!({"type": "json_schema", "name": "n", "schema": schema(), "strict": true});
    let fields = json!({
        "instructions": "Be kind.", "text": {"format": form, "verbosity": "low"}, "truncation": "auto",
        "reasoning": {"effort": "low", "summary": "auto"}, "top_logprobs": 2, "stream": true,
        "include": ["message.output_text.logprobs"], "metadata": {"a": "b"}, "temperature": 0.5,
        "parallel_tool_calls": false, "hob": {"ttl": "short"},
    });
    set_some(&mut body, fields, random);
    body
}

pub fn anthropic(random: &mut Random) -> Value {
    let mark = json!({"type": "ephemeral", "ttl": random.among(&["5m", "1h"])});
    let text = |text: &str| json!({"type": "text", "text": text, "cache_control": mark});
    let source = json!({"type": "text", "media_type": "text/plain", "data": "three"});
    let document = json!({"type": "document", "source": source, "title": "T"});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("nothing")],
                        "is_error": random.one_in(2)});
    let answered = json!([
        {"type": "thinking", "thinking": "hm", "signature": "hob"},
        {"type": "redacted_thinking", "data": "AAAA"},
        {"type": "text", "text": "I look."},
        call,
    ]);
    let newest = json!({"role": "user", "content": [result, text("Say this: four")]});
    let mut body = json!({"model": "fake", "max_tokens": 8});
    if random.one_in(4) {
        let previous = answer_id(random, "msg");
        body["thread"] = json!({"type": "continue", "previous_message_id": previous});
        body["messages"] = json!([newest]);
    } else {
        let mut messages = vec![
            json!({"role": "user", "content": [text("Say this: one two"), document]}),
            json!({"role": "assistant", "content": answered}),
            json!({"role": "system", "content": "Be kind."}),
            newest,
        ];
        if random.one_in(6) {
            messages.push(json!({"role": "assistant", "content": "fo"})); // The answer goes on with it.
        }
        body["messages"] = json!(messages);
        if random.one_in(2) {
            let kind = *random.among(&["auto", "any", "none"]);
            body["tools"] =
                json!([{"name": "look", "input_schema": schema(), "cache_control": mark}]);
            body["tool_choice"] = json!({"type": kind, "disable_parallel_tool_use": true});
        }
        let name = random.among(&NAMES);
        let fields = json!({
            "system": [text("You are brief.")], "thread": {"type": "create"}, "conversation": name,
        });
        set_some(&mut body, fields, random);
    }
    let budget = *random.among(&[1_024, 8_192, 32_768]);
    let form = json!({"type": "json_schema", "schema": schema()});
    let fields = json!({
        "thinking": {"type": "enabled", "budget_tokens": budget, "display": "omitted"},
        "output_config": {"effort": "low", "format": form}, "cache_control": mark, "stream": true,
        "metadata": {"user_id": "u"}, "stop_sequences": ["x"], "temperature": 0.5,
        "hob": {"progress": true},
    });
    set_some(&mut body, fields, random);
    body
}

pub fn ollama(random: &mut Random, route: &str) -> Value {
    let options = json!({"num_predict": 8, "temperature": 0.5, "seed": -1, "num_ctx": 4_096,
                         "num_gpu": 1, "stop": ["x"]});
    let mut body = json!({"model": "fake", "options": options});
    // Without messages or a prompt, a request loads the weights.
    let loads = random.one_in(10);
    if route == "/api/chat" {
        let function = json!({"name": "look", "arguments": {"at": 1}});
        let tool = json!({"name": "look", "parameters": schema()});
        let messages = json!([
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": "Say this: one two", "images": []},
            {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [{"function": function}]},
            {"role": "tool", "tool_name": "look", "content": "nothing"},
            {"role": "user", "content": "Say this: three"},
        ]);
        body["messages"] = if loads { json!([]) } else { messages };
        set_some(&mut body, json!({"tools": [{"function": tool}]}), random);
    } else {
        body["prompt"] = json!(if loads { "" } else { "Say this: one" });
        match random.below(3) {
            0 => body["system"] = "You are brief.".into(),
            1 => body["raw"] = true.into(),
            _ => {}
        }
    }
    // 0 would free the weights, and every request would wait until they are loaded again.
    let stay = [json!("5m"), json!(300), json!(-1), json!("1h30m")];
    let think = [json!(true), json!(false), json!("low"), json!("high")];
    let form = [json!("json"), json!(""), schema()];
    let fields = json!({
        "keep_alive": random.among(&stay), "think": random.among(&think), "format": random.among(&form),
        "stream": false, "logprobs": true, "conversation": random.among(&NAMES), "hob": {"ttl": "short"},
    });
    set_some(&mut body, fields, random);
    body
}
