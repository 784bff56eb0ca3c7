"""Frameworks that speak OpenAI's API, and LiteLLM also the others: chats, streams, tools and their results."""

import asyncio
import json
import os
import subprocess
import sys

import litellm
import pytest
from autogen_core.models import SystemMessage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret
from smolagents import OpenAIModel

from words import HELPFUL, MODEL, SET_LIGHT, ask, assistant, text, user

HELLO = [HELPFUL, user("Hello!")]
LIGHT = [HELPFUL, user("Turn on the kitchen light.")]
CALL = {"room": "kitchen", "state": "on"}
PROPERTIES = SET_LIGHT["function"]["parameters"]


@pytest.fixture
def greeting(client):
    return text(ask(client, HELLO))


def lite(hobd, provider="openai", path="/v1", **options):
    places = {"model": f"{provider}/{MODEL}", "api_base": hobd.url + path, "api_key": hobd.token}
    return {**places, "temperature": 0, "max_tokens": 80, "num_retries": 0, **options}


def test_litellm_answers_and_streams(hobd, greeting):
    asked = lite(hobd, messages=HELLO)
    answer = litellm.completion(**asked)
    assert text(answer) == greeting
    assert answer.usage.prompt_tokens > 0
    chunks = list(litellm.completion(stream=True, **asked))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == greeting
    assert text(asyncio.run(litellm.acompletion(**asked))) == greeting


def test_litellm_calls_a_tool(hobd):
    answer = litellm.completion(**lite(hobd, messages=LIGHT, tools=[SET_LIGHT]))
    [call] = answer.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("set_light", CALL)


def test_litellm_names_a_prompt_that_is_too_long(hobd):
    long = [user("Hello! " * 20_000)]
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**lite(hobd, messages=long))


@pytest.mark.parametrize("provider", ["anthropic", "ollama_chat"])
def test_litellm_speaks_the_other_protocols(hobd, greeting, provider):
    assert text(litellm.completion(**lite(hobd, provider, path="", messages=HELLO))) == greeting


def test_litellm_asks_for_a_response(hobd, greeting):
    options = {key: value for key, value in lite(hobd).items() if key not in ("max_tokens", "num_retries")}
    answer = litellm.responses(input=HELLO, **options)
    assert answer.output[-1].content[0].text == greeting


def haystack(hobd, **options):
    greedy = {"temperature": 0, "max_tokens": 80}
    places = {"api_key": Secret.from_token(hobd.token), "api_base_url": f"{hobd.url}/v1"}
    return OpenAIChatGenerator(model=MODEL, generation_kwargs=greedy, **places, **options)


def test_haystack_answers_and_streams(hobd, greeting):
    messages = [ChatMessage.from_system(HELPFUL["content"]), ChatMessage.from_user("Hello!")]
    assert haystack(hobd).run(messages)["replies"][0].text == greeting
    parts = []
    haystack(hobd, streaming_callback=lambda chunk: parts.append(chunk.content)).run(messages)
    assert "".join(parts) == greeting


def test_haystack_calls_a_tool(hobd):
    light = Tool(
        name="set_light",
        description=SET_LIGHT["function"]["description"],
        parameters=PROPERTIES,
        function=lambda room, state: "done",
    )
    messages = [ChatMessage.from_system(HELPFUL["content"]), ChatMessage.from_user(LIGHT[1]["content"])]
    [reply] = haystack(hobd, tools=[light]).run(messages)["replies"]
    [call] = reply.tool_calls
    assert (call.tool_name, call.arguments) == ("set_light", CALL)


def test_autogen_answers_streams_and_calls_a_tool(hobd, greeting):
    def set_light(room: str, state: str) -> str:
        """Turn a light on or off."""
        return "done"

    async def talk():
        client = OpenAIChatCompletionClient(
            model=MODEL,
            base_url=f"{hobd.url}/v1",
            api_key=hobd.token,
            temperature=0,
            max_tokens=80,
            model_info={
                "vision": False,
                "function_calling": True,
                "json_output": True,
                "structured_output": True,
                "family": "unknown",
            },
        )
        prompt = [SystemMessage(content=HELPFUL["content"]), UserMessage(content="Hello!", source="user")]
        answer = await client.create(prompt)
        parts = [part async for part in client.create_stream(prompt)]
        light = FunctionTool(set_light, description=SET_LIGHT["function"]["description"])
        question = UserMessage(content=LIGHT[1]["content"], source="user")
        called = await client.create([prompt[0], question], tools=[light])
        await client.close()
        return answer.content, "".join(part for part in parts if isinstance(part, str)), called.content

    answer, streamed, [call] = asyncio.run(talk())
    assert answer == streamed == greeting
    # The framework describes the parameters in other words, which the small model has not learned.
    arguments = json.loads(call.arguments)
    assert (call.name, arguments["room"], list(arguments)) == ("set_light", "kitchen", list(CALL))


def test_smolagents_answers_and_streams(hobd, greeting):
    model = OpenAIModel(model_id=MODEL, api_base=f"{hobd.url}/v1", api_key=hobd.token, temperature=0, max_tokens=80)
    assert model.generate(HELLO).content == greeting
    parts = [delta.content or "" for delta in model.generate_stream(HELLO)]
    assert "".join(parts) == greeting


def llm(hobd, directory, *arguments: str) -> str:
    """Simon Willison's `llm` as a program."""
    models = [{"model_id": "hob", "model_name": MODEL, "api_base": f"{hobd.url}/v1", "api_key_name": "hob"}]
    (directory / "extra-openai-models.yaml").write_text(json.dumps(models))  # YAML contains JSON.
    (directory / "keys.json").write_text(json.dumps({"hob": hobd.token}))
    environment = {**os.environ, "LLM_USER_PATH": str(directory)}
    command = [sys.executable, "-m", "llm", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_llm_asks_and_continues_in_the_terminal(hobd, client, greeting, tmp_path):
    options = ("-o", "temperature", "0", "-o", "max_tokens", "80")
    asked = ("prompt", "-m", "hob", "-s", HELPFUL["content"], *options)
    assert llm(hobd, tmp_path, *asked, "Hello!") == greeting
    assert llm(hobd, tmp_path, *asked, "--no-stream", "Hello!") == greeting
    then = "What is my locker code?"
    expected = text(ask(client, [*HELLO, assistant(greeting), user(then)]))
    assert llm(hobd, tmp_path, "prompt", "-c", *options, then) == expected
