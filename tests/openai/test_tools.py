"""Tools: offered, called, required, forbidden, answered."""

import json

import pytest

from words import GET_WEATHER, HELPFUL, SET_LIGHT, ask, text, user

TOOLS = [GET_WEATHER, SET_LIGHT]
LIGHT = [HELPFUL, user("Turn on the kitchen light.")]


def call(answer) -> tuple[str, dict]:
    """The one call of an answer."""
    [choice] = answer.choices
    [tool_call] = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls"
    assert tool_call.type == "function" and tool_call.id
    return tool_call.function.name, json.loads(tool_call.function.arguments)


def named(name: str) -> dict:
    return {"type": "function", "function": {"name": name}}


def test_a_tool_that_fits_is_called(client):
    answer = ask(client, LIGHT, tools=TOOLS)
    assert call(answer) == ("set_light", {"room": "kitchen", "state": "on"})
    assert answer.choices[0].message.content is None


def test_where_no_tool_fits_the_answer_is_text(client):
    answer = ask(client, [HELPFUL, user("Hello!")], tools=TOOLS)
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"
    assert text(answer) == "Hello! How can I help you?"


def test_streamed_pieces_of_a_call_join_to_the_whole(client):
    chunks = list(ask(client, LIGHT, tools=TOOLS, stream=True))
    pieces = [p for c in chunks for p in c.choices[0].delta.tool_calls or []]

    assert {piece.index for piece in pieces} == {0}
    assert pieces[0].id and pieces[0].type == "function"
    assert pieces[0].function.name == "set_light"
    assert pieces[0].function.arguments == ""
    assert all(piece.id is None and piece.function.name is None for piece in pieces[1:])
    assert len(pieces) > 3, "the arguments come as the model writes them"
    arguments = "".join(piece.function.arguments or "" for piece in pieces)
    assert json.loads(arguments) == {"room": "kitchen", "state": "on"}
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == ""
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_call_that_the_limit_cuts_is_a_part_of_its_arguments(client, name):
    """It keeps its tokens in the next turn."""
    options = {"tools": TOOLS, "max_tokens": 24}
    cut = ask(client, LIGHT, extra_body={"conversation": name}, **options)
    [choice] = cut.choices
    assert choice.finish_reason == "length" and choice.message.content is None
    [made] = choice.message.tool_calls
    assert made.function.name == "set_light"
    assert made.function.arguments.startswith('{"room"')
    with pytest.raises(json.JSONDecodeError):
        json.loads(made.function.arguments)

    chunks = list(ask(client, LIGHT, stream=True, **options))
    pieces = [p for c in chunks for p in c.choices[0].delta.tool_calls or []]
    assert "".join(piece.function.arguments for piece in pieces) == made.function.arguments
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == ""
    assert chunks[-1].choices[0].finish_reason == "length"

    known = {"tools": TOOLS, "extra_body": {"conversation": name}}
    for history in ([*LIGHT, choice.message], LIGHT):
        result = {"role": "tool", "tool_call_id": made.id, "content": "{}"}
        if history is LIGHT:
            known["extra_body"]["hob"] = {"append": True}
            history = []
        before, cut = cut, ask(client, [*history, result], max_tokens=8, **known)
        new = cut.usage.prompt_tokens - before.usage.total_tokens
        assert cut.hob["tokens"]["computed"] <= new + 1, cut.hob


def test_the_clients_own_helper_assembles_a_call(client):
    with client.chat.completions.stream(
        model="hob", temperature=0, messages=LIGHT, tools=TOOLS
    ) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    assert call(answer) == ("set_light", {"room": "kitchen", "state": "on"})


def test_a_required_call_is_made_where_the_model_would_answer_in_text(client):
    options = {"tools": TOOLS, "tool_choice": "required", "max_tokens": 80}
    answer = ask(client, [HELPFUL, user("Hello!")], **options)
    name, arguments = call(answer)
    assert name in ("get_weather", "set_light") and arguments


@pytest.mark.parametrize("words", ["Hello!", "Turn on the kitchen light."])
def test_a_named_tool_is_called_and_no_other(client, words):
    messages, choice = [HELPFUL, user(words)], named("get_weather")
    answer = ask(client, messages, tools=TOOLS, tool_choice=choice, max_tokens=80)
    name, arguments = call(answer)
    assert name == "get_weather"
    assert list(arguments) == ["city"] and isinstance(arguments["city"], str)


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_only_allowed_tools_are_called_and_the_prompt_offers_all(client, mode):
    allowed = {"mode": mode, "tools": [named("get_weather")]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    answer = ask(client, LIGHT, tools=TOOLS, tool_choice=choice, max_tokens=80)
    calls = answer.choices[0].message.tool_calls or []
    assert {tool_call.function.name for tool_call in calls} <= {"get_weather"}
    assert calls or mode == "auto"
    auto = ask(client, LIGHT, tools=TOOLS, max_tokens=1)
    assert answer.usage.prompt_tokens == auto.usage.prompt_tokens


def test_a_required_call_is_streamed_as_well(client):
    messages = [HELPFUL, user("Hello!")]
    options = {"tools": TOOLS, "tool_choice": "required", "max_tokens": 80}
    chunks = list(ask(client, messages, stream=True, **options))
    pieces = [p for c in chunks for p in c.choices[0].delta.tool_calls or []]
    assert json.loads("".join(piece.function.arguments or "" for piece in pieces))
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_with_tool_choice_none_the_answer_is_text(client):
    answer = ask(client, LIGHT, tools=TOOLS, tool_choice="none", max_tokens=80)
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"
    assert text(answer)


def test_tool_choice_none_leaves_the_prompt_unchanged(client):
    auto = ask(client, LIGHT, tools=TOOLS)
    none = ask(client, LIGHT, tools=TOOLS, tool_choice="none")
    assert none.usage.prompt_tokens == auto.usage.prompt_tokens
    assert none.hob["tokens"]["computed"] == 1


def test_arguments_follow_the_schema_of_the_tool(client):
    strict = json.loads(json.dumps(SET_LIGHT))
    strict["function"]["parameters"]["properties"]["room"] = {"enum": ["attic", "garage"]}
    answer = ask(client, LIGHT, tools=[strict], tool_choice="required", max_tokens=80)
    assert call(answer)[1]["room"] in ("attic", "garage")


def test_the_answer_uses_the_result_of_a_tool(client, name):
    options = {"tools": [GET_WEATHER], "extra_body": {"conversation": name}}
    messages = [HELPFUL, user("How is the weather in Lima?")]
    called = ask(client, messages, **options)
    assert call(called) == ("get_weather", {"city": "Lima"})

    message = called.choices[0].message
    found = {
        "role": "tool",
        "tool_call_id": message.tool_calls[0].id,
        "content": json.dumps({"sky": "sunny", "degrees": 31}),
    }
    answer = ask(client, [*messages, message, found], **options)
    assert text(answer) == "It is sunny in Lima, 31 degrees."
    new = answer.usage.prompt_tokens - called.usage.total_tokens
    assert answer.hob["tokens"]["computed"] <= new + 1  # The call's own end, if it was just made.

    stored = client.get(f"/conversations/{name}", cast_to=object)["messages"]
    assert [m["role"] for m in stored] == ["system", "user", "assistant", "tool", "assistant"]
    assert stored[2]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert stored[3]["tool_call_id"] == message.tool_calls[0].id


def test_a_tool_without_parameters_may_be_offered(client):
    bare = {"type": "function", "function": {"name": "get_time"}}
    answer = ask(client, [HELPFUL, user("Hello!")], tools=[bare], tool_choice="auto")
    assert text(answer) or answer.choices[0].message.tool_calls
