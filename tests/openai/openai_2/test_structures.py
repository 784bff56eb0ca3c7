"""Instructor and LlamaIndex: answers of types, in each way that they ask for them; chats, streams, tools."""

from typing import Literal

import instructor
import ollama
import openai
import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from words import HELPFUL, MODEL, ask, complete, text, user

HELLO = [HELPFUL, user("Hello!")]


class Mood(BaseModel):
    """The mood."""

    mood: Literal["good", "bad"]


@pytest.fixture
def greeting(client):
    return text(ask(client, HELLO))


MODES = [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA]
GREEDY = {"model": MODEL, "temperature": 0, "max_retries": 0}


@pytest.mark.parametrize("mode", MODES, ids=[mode.name for mode in MODES])
def test_instructor_gets_a_type(client, mode):
    patched = instructor.from_openai(client, mode=mode)
    answer = patched.chat.completions.create(response_model=Mood, messages=HELLO, max_tokens=80, **GREEDY)
    assert isinstance(answer, Mood)


def test_instructor_gets_a_type_as_a_response(client):
    patched = instructor.from_openai(client, mode=instructor.Mode.RESPONSES_TOOLS)
    answer = patched.responses.create(response_model=Mood, input=HELLO, max_output_tokens=80, **GREEDY)
    assert isinstance(answer, Mood)


def test_instructor_streams_a_part_of_a_type(client):
    patched = instructor.from_openai(client, mode=instructor.Mode.TOOLS)
    asked = {"response_model": Mood, "messages": HELLO, "max_tokens": 80, **GREEDY}
    parts = list(patched.chat.completions.create_partial(**asked))
    assert parts[-1].mood in ("good", "bad")


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return '{"sky": "sunny", "degrees": 31}'


def llama_messages() -> list[ChatMessage]:
    return [ChatMessage(role=message["role"], content=message["content"]) for message in HELLO]


@pytest.fixture
def like(hobd):
    def of(**options):
        flags = {"is_chat_model": True, "is_function_calling_model": True, "should_use_structured_outputs": True}
        places = {"api_base": f"{hobd.url}/v1", "api_key": hobd.token, "context_window": 4096}
        greedy = {"temperature": 0, "max_tokens": 80, "max_retries": 0}
        return OpenAILike(model=MODEL, **{**flags, **places, **greedy, **options})

    return of


def test_llama_index_chats_and_streams(like, greeting):
    assert like().chat(llama_messages()).message.content == greeting
    assert "".join(part.delta or "" for part in like().stream_chat(llama_messages())) == greeting


def test_llama_index_completes_a_prompt(like, client):
    completed = complete(client, "Hello", max_tokens=8).choices[0].text
    assert like(is_chat_model=False, max_tokens=8).complete("Hello").text == completed


def test_llama_index_calls_a_tool(like):
    tool = FunctionTool.from_defaults(get_weather)
    asked = like().chat_with_tools([tool], "How is the weather in Lima?", chat_history=llama_messages()[:1])
    [call] = like().get_tool_calls_from_response(asked)
    assert call.tool_name == "get_weather" and list(call.tool_kwargs) == ["city"]


def test_llama_index_gets_a_type(like):
    structured = like().as_structured_llm(Mood)
    assert isinstance(structured.chat(llama_messages()).raw, Mood)


def test_llama_index_raises_the_errors_of_the_client(like):
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        like().complete("Hello! " * 20_000)
    with pytest.raises(openai.AuthenticationError):
        like(api_key="other").complete("Hello!")


@pytest.fixture
def llama(hobd):
    headers = {"Authorization": f"Bearer {hobd.token}"}
    client = {"client": ollama.Client(host=hobd.url, headers=headers)}
    return Ollama(model=MODEL, base_url=hobd.url, temperature=0, context_window=4096, **client)


def test_llama_index_ollama_chats_streams_and_completes(llama, client, greeting):
    assert llama.chat(llama_messages()).message.content == greeting
    assert "".join(part.delta or "" for part in llama.stream_chat(llama_messages())) == greeting
    assert llama.complete("Hello!").text == text(ask(client, "Hello!"))


def test_llama_index_ollama_calls_a_tool(llama):
    tool = FunctionTool.from_defaults(get_weather)
    asked = llama.chat_with_tools([tool], "How is the weather in Lima?", chat_history=llama_messages()[:1])
    [call] = llama.get_tool_calls_from_response(asked)
    assert call.tool_name == "get_weather" and list(call.tool_kwargs) == ["city"]


def test_llama_index_ollama_gets_a_type(llama):
    structured = llama.as_structured_llm(Mood)
    assert isinstance(structured.chat(llama_messages()).raw, Mood)
