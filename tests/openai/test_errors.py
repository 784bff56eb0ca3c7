"""Refused requests, as the client raises them: the class, the field, a code, a remedy."""

import openai
import pytest

from words import GET_WEATHER, ask, complete, text, user


def refusal(error) -> tuple:
    """Param and code; asserts that the error object is complete."""
    assert set(error.body) == {"message", "type", "param", "code"}
    assert error.body["message"] and error.body["type"]
    return error.param, error.code


def test_a_request_without_the_token_is_refused(hobd):
    stranger = hobd.client(api_key="sk-wrong")
    with pytest.raises(openai.AuthenticationError) as refused:
        ask(stranger, "Hello!")
    assert refusal(refused.value) == (None, "invalid_api_key")
    assert refused.value.type == "authentication_error"

    with pytest.raises(openai.AuthenticationError) as refused:
        hobd.client().models.list(extra_headers={"Authorization": openai.Omit()})
    assert refusal(refused.value) == (None, "missing_token")
    assert "token file" in refused.value.message
    assert refused.value.response.headers["www-authenticate"] == "Bearer"


def test_health_needs_no_token(hobd):
    stranger = hobd.client(api_key="sk-wrong", base_url=hobd.url)
    assert stranger.get("/health", cast_to=object) == {"status": "ok"}


@pytest.mark.parametrize("header", ["Host", "Origin"])
def test_foreign_hosts_and_origins_are_refused(hobd, header):
    value = {"Host": "evil.example", "Origin": "http://evil.example"}[header]
    with pytest.raises(openai.PermissionDeniedError) as refused:
        ask(hobd.client(default_headers={header: value}), "Hello!")
    assert refused.value.code == f"{header.lower()}_not_allowed"
    assert "access-control-allow-origin" not in refused.value.response.headers


def test_unknown_paths_and_methods_have_errors_of_their_own(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.images.generate(prompt="a kettle")
    assert refusal(refused.value) == (None, "not_found")
    with pytest.raises(openai.APIStatusError) as refused:
        client.get("/chat/completions", cast_to=object)
    assert (refused.value.status_code, refused.value.code) == (405, "method_not_allowed")


def bad(**fields) -> dict:
    return {"messages": [user("Hello!")], **fields}


TOOL = GET_WEATHER
MALFORMED = [
    (bad(messages="Hello!"), "messages", "invalid_type"),
    (bad(messages=None), "messages", "missing"),
    (bad(messages=[]), "messages", "invalid_value"),
    (bad(messages=["Hello!"]), "messages[0]", "invalid_type"),
    (bad(messages=[{"content": "Hello!"}]), "messages[0].role", "missing"),
    (bad(messages=[{"role": "robot", "content": "a"}]), "messages[0].role", "invalid_value"),
    (bad(messages=[user("a"), {"role": "user"}]), "messages[1].content", "missing"),
    (bad(messages=[user(5)]), "messages[0].content", "invalid_type"),
    (
        bad(messages=[user([{"type": "image_url", "image_url": {"url": "data:"}}])]),
        "messages[0].content[0].type",
        "unsupported",
    ),
    (bad(messages=[{"role": "tool", "content": "a"}]), "messages[0].tool_call_id", "missing"),
    (bad(temperature=3), "temperature", "invalid_value"),
    (bad(temperature="hot"), "temperature", "invalid_type"),
    (bad(top_p=2), "top_p", "invalid_value"),
    (bad(n=0), "n", "invalid_value"),
    (bad(n=1000), "n", "invalid_value"),
    (bad(max_tokens=-2), "max_tokens", "invalid_value"),
    (bad(max_completion_tokens="many"), "max_completion_tokens", "invalid_type"),
    (bad(seed=1.5), "seed", "invalid_type"),
    (bad(stop=["x" * 2000]), "stop", "invalid_value"),
    (bad(stop=5), "stop", "invalid_type"),
    (bad(logit_bias={"99999": 1}), "logit_bias.99999", "invalid_value"),
    (bad(logit_bias={"1": 200}), "logit_bias.1", "invalid_value"),
    (bad(top_logprobs=3), "top_logprobs", "invalid_value"),
    (bad(logprobs=True, top_logprobs=99), "top_logprobs", "invalid_value"),
    (bad(stream="yes"), "stream", "invalid_type"),
    (bad(response_format="json"), "response_format", "invalid_type"),
    (bad(response_format={"type": "xml"}), "response_format.type", "invalid_value"),
    (bad(response_format={"type": "json_schema"}), "response_format.json_schema", "missing"),
    (bad(tools={}), "tools", "invalid_type"),
    (bad(tools=[{"type": "retrieval"}]), "tools[0].type", "unsupported"),
    (bad(tools=[TOOL, TOOL]), "tools[1].function.name", "invalid_value"),
    (bad(tool_choice="required"), "tool_choice", "invalid_value"),
    (bad(tools=[TOOL], tool_choice="maybe"), "tool_choice", "invalid_value"),
    (
        bad(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "fly"}}),
        "tool_choice.function.name",
        "invalid_value",
    ),
    (bad(functions=[{"name": "f g"}]), "functions[0].name", "invalid_value"),
    (bad(function_call={"name": "f"}), "function_call", "unsupported"),
    (bad(conversation="a\nb"), "conversation", "invalid_value"),
    (bad(hob={"append": True}), "hob.append", "invalid_value"),
    (bad(hob={"apend": True}), "hob.apend", "unsupported"),
]


@pytest.mark.parametrize("body, param, code", MALFORMED, ids=[param for _, param, _ in MALFORMED])
def test_a_wrong_field_is_named(client, body, param, code):
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/chat/completions", cast_to=object, body=body)
    assert refusal(refused.value) == (param, code)
    assert refused.value.type == "invalid_request_error"


def test_an_invalid_stream_request_is_refused_before_the_first_chunk(client):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "Hello!", stream=True, temperature=9)
    assert refused.value.param == "temperature"


@pytest.mark.parametrize(
    "prompt, param", [([], "prompt"), ([1, 99999], "prompt[1]"), ([1, "a"], "prompt[0]")]
)
def test_a_wrong_prompt_is_named(client, prompt, param):
    with pytest.raises(openai.BadRequestError) as refused:
        complete(client, prompt)
    assert refused.value.param == param


def test_an_empty_prompt_is_refused(client):
    with pytest.raises(openai.BadRequestError) as refused:
        complete(client, "")
    assert refused.value.code == "empty_prompt"


def test_an_invalid_json_error_names_the_position(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.post(
            "/chat/completions",
            cast_to=object,
            content=b'{"messages": [',
            options={"headers": {"Content-Type": "application/json"}},
        )
    assert refusal(refused.value) == (None, "invalid_json")
    assert "line 1" in refused.value.message


def test_a_body_that_is_too_large_is_not_read(start):
    client = start("--max-body-bytes", "64KiB").client()
    with pytest.raises(openai.APIStatusError) as refused:
        ask(client, "a" * 100_000)
    assert (refused.value.status_code, refused.value.code) == (413, "body_too_large")
    assert text(ask(client, "Hello!")) == "Hello! How can I help you?"


def test_an_oversized_prompt_error_names_its_length(start):
    client = start("--ctx", "256", "--slots", "1", "--eviction", "off").client()
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "The sky is blue. " * 200)
    assert refused.value.code == "context_length_exceeded"
    assert "256" in refused.value.message
    assert text(ask(client, "Hello!")) == "Hello! How can I help you?"


def test_an_answer_that_fills_the_context_ends_there(start):
    client = start("--ctx", "256", "--slots", "1", "--eviction", "off").client()
    answer = ask(client, "Hello!", extra_body={"ignore_eos": True})
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.total_tokens in range(250, 258)
    assert text(ask(client, "Hello!")) == "Hello! How can I help you?"
