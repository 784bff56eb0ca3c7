"""Anthropic's official client and LangChain's, on the Messages API. The fake model writes what it is asked to say."""

import asyncio
import json

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from pydantic import BaseModel

from hobd import Hobd
from words import GET_WEATHER, HELPFUL, SET_LIGHT, ask, text, user

CALL = '<tool_call>\n{"name": "light", "arguments": {"room": "hall", "on": true}}\n</tool_call>'
LIGHT = {
    "name": "light",
    "description": "Switches a light.",
    "input_schema": {
        "type": "object",
        "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}},
        "required": ["room", "on"],
    },
}


def client_of(hobd: Hobd, kind=Anthropic, **options):
    return kind(**{"base_url": hobd.url, "api_key": hobd.token, "max_retries": 0, **options})


@pytest.fixture
def claude(fake):
    return client_of(fake)


def said(text: str, **fields) -> dict:
    """The arguments of a request that is answered with `text`."""
    messages = [user(f"Say this: {text}")]
    return {"model": "any", "max_tokens": 400, "messages": messages, **fields}


def test_a_message_and_its_usage(claude):
    message = claude.messages.create(**said("Hello", system="Be brief."))
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": "Hello"}]
    assert (message.role, message.type, message.stop_reason) == ("assistant", "message", "end_turn")
    usage = message.usage
    total = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
    counted = claude.messages.count_tokens(
        model="any", system="Be brief.", messages=[user("Say this: Hello")]
    )
    assert counted.input_tokens == total
    assert message._request_id.startswith("req_")


def test_a_second_request_reads_the_cache(claude):
    system = [{"type": "text", "text": "Be kind. " * 40, "cache_control": {"type": "ephemeral"}}]
    first = claude.messages.create(**said("One", system=system)).usage
    second = claude.messages.create(**said("Two", system=system)).usage
    assert first.cache_creation_input_tokens > 300 and first.cache_read_input_tokens < 30
    assert second.cache_read_input_tokens > 300 and second.cache_creation_input_tokens < 30


def test_the_streams_of_the_client_end_with_the_whole_message(claude):
    with claude.messages.stream(**said("<think>Hm.</think>Hello there")) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    thinking, answer = message.content
    assert (thinking.thinking, thinking.signature, answer.text) == ("Hm.", "hob", "Hello there")
    assert {"thinking", "signature", "text"} < set(kinds)
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 2
    assert message.usage.output_tokens > 0 and message.stop_reason == "end_turn"


def test_stop_sequences_and_limits(claude):
    stopped = claude.messages.create(**said("one two", stop_sequences=[" two"]))
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " two")
    assert stopped.content[0].text == "one"
    cut = claude.messages.create(**said("one two", max_tokens=3))
    assert (cut.stop_reason, cut.content[0].text) == ("max_tokens", "one")


def test_a_tool_is_called_and_its_result_answered(claude):
    asked = said(f"So.\n{CALL}", tools=[LIGHT])
    with claude.messages.stream(**asked) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        message = stream.get_final_message()
    assert message.stop_reason == "tool_use" and len(pieces) > 3
    call = message.content[-1]
    assert (call.name, call.input) == ("light", {"room": "hall", "on": True})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "It is on."}
    messages = [
        *asked["messages"],
        message.to_param(),
        {"role": "user", "content": [result, {"type": "text", "text": "Say this: Done"}]},
    ]
    answer = claude.messages.create(**{**asked, "messages": messages})
    assert answer.content[0].text == "Done"


def test_choices_of_tools(claude):
    def kinds(text: str, **choice) -> list[str]:
        answer = claude.messages.create(**said(text, tools=[LIGHT], tool_choice=choice))
        return [block.type for block in answer.content]

    assert kinds("Hello", type="auto") == ["text"]
    assert kinds(CALL, type="tool", name="light") == ["tool_use"]
    assert kinds(f"{CALL}\n{CALL}", type="any") == ["tool_use", "tool_use"]
    assert kinds(f"{CALL}\n{CALL}", type="any", disable_parallel_tool_use=True) == ["tool_use"]
    assert kinds(f"So. {CALL}", type="none") == ["text"]


class Mood(BaseModel):
    mood: str


def test_an_answer_of_a_schema_is_parsed(claude):
    answer = claude.messages.parse(**said('{"mood": "good"}'), output_format=Mood)
    assert answer.parsed_output == Mood(mood="good")


def test_the_beta_client_and_its_fields(claude):
    answer = claude.beta.messages.create(
        **said("Hello"),
        betas=["interleaved-thinking-2025-05-14"],
        thinking={"type": "enabled", "budget_tokens": 2048},
        metadata={"user_id": "u"},
    )
    assert answer.content[0].text == "Hello"


def test_many_at_once(fake):
    async def all_of_them() -> list[str]:
        async with client_of(fake, AsyncAnthropic) as claude:
            asked = (claude.messages.create(**said(f"Number {n}")) for n in range(8))
            return [message.content[0].text for message in await asyncio.gather(*asked)]

    assert asyncio.run(all_of_them()) == [f"Number {n}" for n in range(8)]


def test_models_are_listed(claude):
    [model] = claude.models.list()
    assert (model.type, model.display_name, model.lifecycle) == ("model", "fake", "active")
    assert model.created_at.year > 2000
    assert claude.models.retrieve(model.id).max_input_tokens == model.max_input_tokens
    with pytest.raises(anthropic.NotFoundError):
        claude.models.retrieve("claude")


def test_errors_are_those_of_the_client(fake, claude):
    with pytest.raises(anthropic.AuthenticationError) as wrong:
        client_of(fake, api_key="other").messages.create(**said("x"))
    assert wrong.value.body["error"]["type"] == "authentication_error"
    with pytest.raises(anthropic.BadRequestError) as wrong:
        claude.messages.create(**said("x", tool_choice={"type": "any"}))
    assert "tool_choice" in wrong.value.body["error"]["message"]
    with pytest.raises(anthropic.NotFoundError):
        claude.post("/v1/messages/nothing", body={}, cast_to=object)
    image = {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}
    with pytest.raises(anthropic.BadRequestError, match="image input is not supported"):
        claude.messages.create(**said("x", messages=[user([image])]))


def test_a_key_may_come_as_older_clients_send_it(fake):
    old = client_of(fake, default_headers={"X-Api-Key": fake.token, "Authorization": "Bearer other"})
    assert old.messages.create(**said("Hello")).content[0].text == "Hello"


def test_a_conversation_is_continued_by_its_new_messages(claude, name):
    own = {"extra_body": {"conversation": name, "hob": {"append": True}}}
    claude.messages.create(**said("One"), extra_body={"conversation": name})
    answer = claude.messages.create(**said("Two"), **own)
    assert answer.usage.cache_read_input_tokens > 0
    stored = claude.get(f"/v1/conversations/{name}", cast_to=object)["messages"]
    assert [m["content"] for m in stored] == ["Say this: One", "One", "Say this: Two", "Two"]


def langchain(fake, **options) -> ChatAnthropic:
    defaults = {"model": "any", "base_url": fake.url, "api_key": fake.token, "max_retries": 0}
    return ChatAnthropic(**{**defaults, **options})


def test_langchain_answers_streams_and_counts(fake):
    model = langchain(fake)
    answer = model.invoke("Say this: Hello")
    assert answer.text == "Hello" and answer.usage_metadata["output_tokens"] == 6
    chunks = list(model.stream("Say this: Hello there"))
    assert "".join(chunk.text for chunk in chunks) == "Hello there" and len(chunks) > 3


def test_langchain_calls_a_tool_and_answers_its_result(fake):
    model = langchain(fake).bind_tools([LIGHT])
    asked = HumanMessage(f"Say this: {CALL}")
    called = model.invoke([asked])
    [call] = called.tool_calls
    assert (call["name"], call["args"]) == ("light", {"room": "hall", "on": True})
    result = ToolMessage("It is on.", tool_call_id=call["id"])
    answer = model.invoke([asked, called, result, HumanMessage("Say this: Done")])
    assert answer.text == "Done"


def test_langchain_reads_a_structure(fake):
    model = langchain(fake).with_structured_output(Mood)
    call = json.dumps({"name": "Mood", "arguments": {"mood": "good"}})
    assert model.invoke(f"Say this: <tool_call>\n{call}\n</tool_call>") == Mood(mood="good")


def of_anthropic(tool: dict) -> dict:
    function = tool["function"]
    known = {name: function[name] for name in ("name", "description")}
    return {**known, "input_schema": function["parameters"]}


TOOLS = [GET_WEATHER, SET_LIGHT]
GREEDY = {"temperature": 0}
HELPED = {"model": "any", "max_tokens": 80, "system": HELPFUL["content"]}


def test_both_protocols_write_the_same_prompt(fake, claude):
    messages = [user("Turn on the kitchen light.")]
    chat = ask(fake.client(), [HELPFUL, *messages], tools=TOOLS, max_tokens=1)
    asked = {**HELPED, "messages": messages, "tools": [of_anthropic(tool) for tool in TOOLS]}
    answer = claude.messages.create(**{**asked, "max_tokens": 1})
    assert answer.usage.cache_read_input_tokens == chat.usage.prompt_tokens - 1
    assert answer.usage.input_tokens == 1


def test_the_bundled_model_answers_and_calls(hobd, client):
    claude = client_of(hobd)
    greet = [user("Hello!")]
    answer = claude.messages.create(messages=greet, extra_body=GREEDY, **HELPED)
    assert answer.content[0].text == text(ask(client, [HELPFUL, *greet]))
    tools = [of_anthropic(tool) for tool in TOOLS]
    light = [user("Turn on the kitchen light.")]
    answer = claude.messages.create(messages=light, tools=tools, extra_body=GREEDY, **HELPED)
    [call] = answer.content
    assert (call.name, call.input) == ("set_light", {"room": "kitchen", "state": "on"})
