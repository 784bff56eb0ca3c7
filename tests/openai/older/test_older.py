"""Clients of 2024, at the versions that many programs still pin: chats, streams, tools, errors."""

import asyncio
import json
from typing import Literal

import anthropic
import ollama
import openai
import pytest
from pydantic import BaseModel

from words import GET_WEATHER, HELPFUL, MODEL, SET_LIGHT, ask, text, user

HELLO = [user("Hello!")]
LIGHT = [user("Turn on the kitchen light.")]
WEATHER = [user("How is the weather in Lima?")]
FOUND = json.dumps({"sky": "sunny", "degrees": 31})
SUNNY = "It is sunny in Lima, 31 degrees."
CALL = {"room": "kitchen", "state": "on"}
LONG = [user("Hello! " * 20_000)]


class Mood(BaseModel):
    mood: Literal["good", "bad"]


@pytest.fixture
def greeting(client):
    return text(ask(client, [HELPFUL, *HELLO]))


def test_old_openai_answers_and_streams(hobd, client, greeting):
    chunks = list(ask(client, [HELPFUL, *HELLO], stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == greeting
    assert chunks[-1].usage.total_tokens > 0

    async def asked():
        async with hobd.async_client() as client:
            return await client.chat.completions.create(model=MODEL, temperature=0, messages=[HELPFUL, *HELLO])

    assert text(asyncio.run(asked())) == greeting
    assert [model.id for model in client.models.list()] == [MODEL]


def test_old_openai_calls_a_tool_and_reads_its_result(client):
    asked = [HELPFUL, *WEATHER]
    message = ask(client, asked, tools=[GET_WEATHER]).choices[0].message
    [call] = message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Lima"}
    result = {"role": "tool", "tool_call_id": call.id, "content": FOUND}
    assert text(ask(client, [*asked, message, result], tools=[GET_WEATHER])) == SUNNY


def test_old_openai_parses_an_answer(client):
    options = {"model": MODEL, "temperature": 0, "max_tokens": 80, "messages": [HELPFUL, *HELLO]}
    parsed = client.beta.chat.completions.parse(response_format=Mood, **options)
    assert isinstance(parsed.choices[0].message.parsed, Mood)


def test_old_openai_goes_on_in_a_conversation(client, name):
    own = {"conversation": name}
    told = ask(client, [HELPFUL, *HELLO], extra_body=own)
    own["hob"] = {"append": True}
    asked = ask(client, LIGHT, tools=[SET_LIGHT], extra_body=own)
    assert told.usage.total_tokens > 0 and asked.choices[0].message


def test_old_openai_raises_its_errors(hobd, client):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, LONG)
    assert refused.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.moderations.create(input="x")
    with pytest.raises(openai.AuthenticationError):
        hobd.client(api_key="other").models.list()


@pytest.fixture
def claude(hobd):
    """Sends the token as X-Api-Key."""
    return anthropic.Anthropic(base_url=hobd.url, api_key=hobd.token, max_retries=0)


CLAUDE = {"model": MODEL, "max_tokens": 80, "temperature": 0, "system": HELPFUL["content"]}


def own(tool: dict) -> dict:
    function = tool["function"]
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


def test_old_anthropic_answers_and_streams(claude, greeting):
    assert claude.messages.create(messages=HELLO, **CLAUDE).content[0].text == greeting
    with claude.messages.stream(messages=HELLO, **CLAUDE) as stream:
        assert "".join(stream.text_stream) == greeting
        assert stream.get_final_message().usage.output_tokens > 0


def test_old_anthropic_calls_a_tool_and_reads_its_result(claude):
    asked = {**CLAUDE, "tools": [own(GET_WEATHER)]}
    message = claude.messages.create(messages=WEATHER, **asked)
    call = message.content[-1]
    assert (message.stop_reason, call.input) == ("tool_use", {"city": "Lima"})
    result = user([{"type": "tool_result", "tool_use_id": call.id, "content": FOUND}])
    history = [*WEATHER, {"role": "assistant", "content": message.content}, result]
    assert claude.messages.create(messages=history, **asked).content[0].text == SUNNY


def test_old_anthropic_counts_tokens_and_raises_its_errors(hobd, claude):
    counted = claude.beta.messages.count_tokens(model=MODEL, system=CLAUDE["system"], messages=HELLO)
    usage = claude.messages.create(messages=HELLO, **CLAUDE).usage
    cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    assert usage.input_tokens + cached == counted.input_tokens
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        claude.messages.create(messages=LONG, **CLAUDE)
    other = anthropic.Anthropic(base_url=hobd.url, api_key="other", max_retries=0)
    with pytest.raises(anthropic.AuthenticationError):
        other.messages.create(messages=HELLO, **CLAUDE)


@pytest.fixture
def llama(hobd):
    return ollama.Client(host=hobd.url, headers={"Authorization": f"Bearer {hobd.token}"})


GREEDY = {"temperature": 0, "num_predict": 80}


def test_old_ollama_answers_and_streams(llama, greeting):
    messages = [HELPFUL, *HELLO]
    assert llama.chat(MODEL, messages, options=GREEDY).message.content == greeting
    parts = llama.chat(MODEL, messages, options=GREEDY, stream=True)
    assert "".join(part["message"]["content"] for part in parts) == greeting
    [helpful, hello] = [message["content"] for message in messages]
    assert llama.generate(MODEL, hello, system=helpful, options=GREEDY).response == greeting


def test_old_ollama_calls_a_tool_and_reads_its_result(llama):
    asked = [HELPFUL, *LIGHT]
    [call] = llama.chat(MODEL, asked, tools=[SET_LIGHT], options=GREEDY).message.tool_calls
    assert (call.function.name, call.function.arguments) == ("set_light", CALL)
    asked = [HELPFUL, *WEATHER]
    message = llama.chat(MODEL, asked, tools=[GET_WEATHER], options=GREEDY).message
    history = [*asked, message, {"role": "tool", "content": FOUND}]
    assert llama.chat(MODEL, history, tools=[GET_WEATHER], options=GREEDY).message.content == SUNNY


def test_old_ollama_lists_models_and_raises_its_errors(llama, hobd):
    assert llama.list()["models"][0]["model"] == f"{MODEL}:latest"
    assert llama.ps()["models"] and llama.show(MODEL)["details"]
    with pytest.raises(ollama.ResponseError) as unknown:
        llama.show("llama3")
    assert unknown.value.status_code == 404
    with pytest.raises(ollama.ResponseError):
        ollama.Client(host=hobd.url).list()
