//! The environment of templates, and the bounds of hostile ones.

use serde_json::json;

use super::*;

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, "<s>", "</s>").unwrap()
}

fn try_render(source: &str, messages: &[Value]) -> Result<String, TemplateError> {
    template(source).render(&RenderInput {
        messages,
        tools: None,
        add_generation_prompt: true,
        extra: &Map::new(),
    })
}

fn render(source: &str) -> String {
    let messages = [json!({"role": "user", "content": "Grüße & <b>", "list": [1, 2.5, {"a": []}]})];
    try_render(source, &messages).unwrap()
}

#[test]
fn blocks_are_trimmed_as_hugging_face_does() {
    assert_eq!(render("a\n  {% if true %}\nb\n  {% endif %}\nc"), "a\nb\nc");
}

#[test]
fn extra_variables_do_not_override_tokens() {
    assert_eq!(render("{{ bos_token }}{{ eos_token }}{{ tools is none }}"), "<s></s>True");
    let extra = [("enable_thinking", json!(false)), ("bos_token", json!("x"))];
    let extra = extra.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let input =
        RenderInput { messages: &[], tools: None, add_generation_prompt: false, extra: &extra };
    let source = "{{ bos_token }}{{ enable_thinking }}{{ add_generation_prompt }}{{ nothing }}.";
    assert_eq!(template(source).render(&input).unwrap(), "<s>FalseFalse.");
}

#[test]
fn arguments_that_are_no_json_stay_as_the_model_wrote_them() {
    for written in ["{{ a | tojson }}", "{% if a is string %}{{ a }}{% else %}?{% endif %}"] {
        let source = format!(
            "{{% for message in messages %}}{{% for call in message.tool_calls %}}\
             {{% set a = call.function.arguments %}}{written};{{% endfor %}}{{% endfor %}}"
        );
        let call = |arguments: &str| json!({"function": {"name": "f", "arguments": arguments}});
        let calls = [r#"{"a": "né"#, r#"{"a": tru}"#].map(call);
        let messages = [json!({"role": "assistant", "tool_calls": calls})];
        let rendered = try_render(&source, &messages).unwrap();
        assert_eq!(rendered, r#"{"a": "né;{"a": tru};"#, "{written}");
    }
}

#[test]
fn a_template_that_reads_each_argument_gets_those_of_a_call_that_broke_off() {
    for members in ["call.function.arguments | items", "call.function.arguments.items()"] {
        let source = format!(
            "{{% for message in messages %}}{{% for call in message.tool_calls %}}\
             {{% for key, value in {members} %}}{{{{ key }}}}={{{{ value }}}};{{% endfor %}}\
             {{% endfor %}}{{% endfor %}}"
        );
        for (arguments, expected) in [
            (r#"{"path": "a.rs", "text": "say \"né"#, "path=a.rs;text=say \"né;"),
            (r#"{"a": "x\"#, "a=x;"),
            (r#"{"a": "x\ud83d\ude0"#, "a=x;"),
            (r#"{"a": 1, "b": tru"#, "a=1;"),
            (r#"{"a": {"b": [1, 2"#, "a={'b': [1, 2]};"),
            (r#"{"a": "}", "b"#, "a=};"),
            (r#"{"a": {"b": 1} and"#, "a={'b': 1};"),
            (r#"{"a"#, ""),
            ("{a: 1}", "arguments={a: 1};"),
            ("[1]", "arguments=[1];"),
            ("", ""),
        ] {
            let call = json!({"function": {"name": "f", "arguments": arguments}});
            let whole = json!({"function": {"name": "g", "arguments": "{\"c\": 2}"}});
            let messages = [json!({"role": "assistant", "tool_calls": [call, whole]})];
            let rendered = try_render(&source, &messages);
            assert_eq!(rendered, Ok(format!("{expected}c=2;")), "{arguments} with {members}");
        }
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        let call = json!({"function": {"name": "f", "arguments": deep}});
        let messages = [json!({"role": "assistant", "tool_calls": [call]})];
        assert_eq!(try_render(&source, &messages), Ok(format!("arguments={deep};")));
    }
}

#[test]
fn tojson_writes_what_python_writes() {
    let message =
        "{\"role\": \"user\", \"content\": \"Grüße & <b>\", \"list\": [1, 2.5, {\"a\": []}]}";
    assert_eq!(render("{{ messages[0] | tojson }}"), message);
    assert_eq!(
        render("{{ messages[0].list | tojson(indent=2) }}"),
        "[\n  1,\n  2.5,\n  {\n    \"a\": []\n  }\n]"
    );
    assert_eq!(
        render("{{ [1, {'b': 1, 'a': 2}] | tojson(separators=(',', ':'), sort_keys=true) }}"),
        r#"[1,{"a":2,"b":1}]"#
    );
    assert_eq!(render("{{ [] | tojson }}{{ {} | tojson }}{{ none | tojson }}"), "[]{}null");
}

#[test]
fn python_methods_exist() {
    assert_eq!(render("{{ ' a|b '.strip().split('|')[-1].upper() }}"), "B");
    assert_eq!(render("{{ messages[0].get('x', 'y') }}{{ 'abc'.startswith('ab') }}"), "yTrue");
    assert_eq!(render("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}"), "a1");
    assert_eq!(render("{% for x in [1, 2, 3][::-1] %}{{ x }}{% endfor %}"), "321");
    assert_eq!(render("{{ '<think>a</think>\n\nb'.split('</think>')[-1].lstrip('\n') }}"), "b");
}

#[test]
fn a_refusal_has_the_templates_words() {
    let source = "{% macro check() %}{{ raise_exception('Roles must alternate!') }}{% endmacro %}{{ check() }}";
    assert_eq!(
        try_render(source, &[]),
        Err(TemplateError::Refused("Roles must alternate!".to_owned()))
    );
}

#[test]
fn the_date_comes_from_the_given_clock() {
    let template =
        template("{{ strftime_now('%d %b %Y') }}").with_clock(|| Timestamp(1_721_952_000_000));
    let extra = Map::new();
    let input =
        RenderInput { messages: &[], tools: None, add_generation_prompt: false, extra: &extra };
    assert_eq!(template.render(&input).unwrap(), "26 Jul 2024");
}

#[test]
fn training_marks_mean_nothing() {
    assert_eq!(render("a{%- generation -%} b {%- endgeneration %} c"), "ab c");
}

#[test]
fn the_hash_names_the_source() {
    assert_eq!(template("x").hash(), "2d711642b726b044");
    assert!(template("{% if tools %}{% endif %}").supports_tools());
    assert!(!template("x").supports_tools());
}

#[test]
fn errors_name_the_line_and_no_message() {
    let syntax = ChatTemplate::new("a\n{% if %}", "", "").unwrap_err().to_string();
    assert!(syntax.starts_with("the chat template cannot be read: line 2: "), "{syntax}");
    let secret = [json!({"role": "user", "content": "secret"})];
    let failed = try_render("{{ messages[0].content + 1 }}", &secret).unwrap_err().to_string();
    assert!(failed.starts_with("the chat template failed: line 1: "), "{failed}");
    assert!(!failed.contains("secret"), "{failed}");
}

#[test]
fn arguments_that_are_no_json_are_written_where_the_template_quotes_them_and_where_not() {
    let call = json!({"function": {"name": "f", "arguments": "{\"a\": 1"}});
    let messages = [json!({"role": "assistant", "tool_calls": [call]})];
    let argument = "messages[0].tool_calls[0].function.arguments";
    let [plain, quoted] = [argument.to_owned(), format!("{argument} | tojson")];
    let source =
        format!("arguments-{{{{ {plain} }}}} {{{{ {quoted} }}}} \"{{{{ {plain} }}}} arguments-0");
    let expected = "arguments-{\"a\": 1 {\"a\": 1 \"{\"a\": 1 arguments-0";
    assert_eq!(try_render(&source, &messages), Ok(expected.to_owned()));
    let long = json!({"function": {"name": "f", "arguments": "{".repeat(MAX_PROMPT_BYTES / 2)}});
    let messages = [json!({"role": "assistant", "tool_calls": [long]})];
    let thrice = format!("{{% for a in range(3) %}}{{{{ {argument} }}}}{{% endfor %}}");
    assert_eq!(try_render(&thrice, &messages), Err(TemplateError::TooLong));
}

#[test]
fn a_hundred_thousand_calls_that_broke_off_are_written() {
    let call = |n: usize| json!({"function": {"name": "f", "arguments": format!("{{\"a\": {n}")}});
    let calls: Vec<Value> = (0..100_000).map(call).collect();
    let mut messages = [json!({"role": "assistant", "tool_calls": calls})];
    let malformed = Malformed::take_from(&mut messages);
    let prompt = messages[0]["tool_calls"].to_string();
    let written = malformed.put_into(prompt, MAX_PROMPT_BYTES).unwrap();
    assert!(written.contains("{\"a\": 99999") && !written.contains("arguments-"));
}

#[test]
fn a_hostile_template_ends_with_an_error() {
    let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    assert_eq!(try_render(endless, &[]), Err(TemplateError::Endless));
    let long = "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}";
    assert_eq!(try_render(long, &[]), Err(TemplateError::TooLong));
    let recursive = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    assert!(matches!(try_render(recursive, &[]), Err(TemplateError::Failed(_))));
    let include = "{% include 'chat template' %}";
    assert!(matches!(try_render(include, &[]), Err(TemplateError::Failed(_))));
    let nested = "(".repeat(100_000);
    assert!(ChatTemplate::new(&format!("{{{{ {nested}"), "", "").is_err());
    assert!(ChatTemplate::new(&"x".repeat(MAX_SOURCE_BYTES + 1), "", "").is_err());
}
