"""LangChain on OpenAI's chats and responses: chats, streams, batches, tools, structures, errors."""

import json
from typing import Literal

import openai
import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

from words import GET_WEATHER, HELPFUL, MODEL, SET_LIGHT, ask, complete, text, user


def asked(words: str) -> list:
    return [SystemMessage(HELPFUL["content"]), HumanMessage(words)]


@pytest.fixture
def model(hobd):
    def of(kind=ChatOpenAI, **options):
        places = {"base_url": f"{hobd.url}/v1", "api_key": hobd.token, "max_retries": 0}
        return kind(**{"model": MODEL, "temperature": 0, "max_tokens": 80, **places, **options})

    return of


@pytest.fixture
def greeting(client):
    return text(ask(client, [HELPFUL, user("Hello!")]))


@pytest.mark.parametrize("responses", [False, True])
def test_langchain_answers_streams_and_batches(model, greeting, responses):
    chat = model(use_responses_api=responses)
    answer = chat.invoke(asked("Hello!"))
    assert answer.text == greeting and answer.usage_metadata["output_tokens"] > 0
    assert "".join(chunk.text for chunk in chat.stream(asked("Hello!"))) == greeting
    assert [answer.text for answer in chat.batch([asked("Hello!")] * 3)] == [greeting] * 3


@pytest.mark.parametrize("responses", [False, True])
def test_langchain_calls_tools_and_reads_their_results(model, responses):
    chat = model(use_responses_api=responses)
    [call] = chat.bind_tools([SET_LIGHT]).invoke(asked("Turn on the kitchen light.")).tool_calls
    assert (call["name"], call["args"]) == ("set_light", {"room": "kitchen", "state": "on"})
    chat = chat.bind_tools([GET_WEATHER])
    words = asked("How is the weather in Lima?")
    called = chat.invoke(words)
    result = ToolMessage(json.dumps({"sky": "sunny", "degrees": 31}), tool_call_id=called.tool_calls[0]["id"])
    assert chat.invoke([*words, called, result]).text == "It is sunny in Lima, 31 degrees."


class Mood(BaseModel):
    mood: Literal["good", "bad"]


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_gets_a_structure(model, method):
    structured = model().with_structured_output(Mood, method=method)
    assert isinstance(structured.invoke(asked("Hello!")), Mood)


def test_langchain_gets_a_structure_beside_tools(model):
    strict = {"type": "function", "function": {**SET_LIGHT["function"], "strict": True}}
    chat = model().bind_tools([strict], response_format=Mood, tool_choice="none")
    assert Mood.model_validate_json(chat.invoke(asked("Hello!")).text)


def test_langchain_completes_a_prompt(model, client):
    completed = complete(client, "Hello", max_tokens=8).choices[0].text
    assert model(OpenAI, max_tokens=8).invoke("Hello") == completed


def test_langchain_knows_a_prompt_that_is_too_long(model):
    with pytest.raises(ContextOverflowError):
        model().invoke("Hello! " * 20_000)


def test_langchain_raises_the_errors_of_the_client(model):
    with pytest.raises(openai.AuthenticationError):
        model(api_key="other").invoke("Hello!")
    with pytest.raises(openai.BadRequestError, match="temperature"):
        model(temperature=9).invoke("Hello!")
