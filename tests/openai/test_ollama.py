"""Ollama's API, with Ollama's own client and LangChain's."""

import asyncio
import json

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_ollama import ChatOllama, OllamaLLM
from ollama import AsyncClient, Client, ResponseError

from words import GET_WEATHER, HELPFUL, MODEL, SET_LIGHT, ask, complete, text, user

HELLO = [HELPFUL, user("Hello!")]
LIGHT = [HELPFUL, user("Turn on the kitchen light.")]
WEATHER = [HELPFUL, user("How is the weather in Lima?")]
GREEDY = {"temperature": 0}


def bearer(hobd) -> dict:
    return {"Authorization": f"Bearer {hobd.token}"}


@pytest.fixture
def ollama(hobd):
    return Client(host=hobd.url, headers=bearer(hobd))


@pytest.fixture
def langchain(hobd):
    def of(kind, **options):
        client = {"headers": bearer(hobd)}
        return kind(
            model=MODEL, base_url=hobd.url, temperature=0, client_kwargs=client, **options
        )

    return of


def test_a_chat_is_that_of_openais_client(ollama, client):
    expected = ask(client, HELLO)
    answer = ollama.chat(MODEL, HELLO, options=GREEDY)
    assert answer.message.content == text(expected)
    assert (answer.done, answer.done_reason) == (True, "stop")
    assert answer.prompt_eval_count == expected.usage.prompt_tokens
    assert answer.eval_count == expected.usage.completion_tokens
    assert answer.total_duration > answer.eval_duration > 0


def test_a_streamed_chat_is_the_same_text(ollama):
    whole = ollama.chat(MODEL, HELLO, options=GREEDY)
    parts = list(ollama.chat(MODEL, HELLO, options=GREEDY, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].eval_count == whole.eval_count


def test_a_tool_is_called_with_an_object_and_its_result_is_read(ollama):
    called = ollama.chat(MODEL, LIGHT, tools=[GET_WEATHER, SET_LIGHT], options=GREEDY)
    [call] = called.message.tool_calls
    assert call.function.name == "set_light"
    assert call.function.arguments == {"room": "kitchen", "state": "on"}

    parts = list(ollama.chat(MODEL, WEATHER, tools=[GET_WEATHER], options=GREEDY, stream=True))
    [message] = [part.message for part in parts if part.message.tool_calls]
    assert message.tool_calls[0].function.arguments == {"city": "Lima"}
    found = json.dumps({"sky": "sunny", "degrees": 31})
    result = {"role": "tool", "tool_name": "get_weather", "content": found}
    history = [*WEATHER, message, result]
    answer = ollama.chat(MODEL, history, tools=[GET_WEATHER], options=GREEDY)
    assert answer.message.content == "It is sunny in Lima, 31 degrees."


def test_a_function_of_python_is_a_tool(ollama):
    def set_light(room: str, state: str) -> str:
        """Turn a light on or off.

        Args:
            room: The room.
            state: on or off.
        """

    answer = ollama.chat(MODEL, LIGHT, tools=[set_light], options={**GREEDY, "num_predict": 200})
    [call] = answer.message.tool_calls
    assert call.function.arguments == {"room": "kitchen", "state": "on"}


def test_a_prompt_is_answered_and_a_raw_one_continued(ollama, client):
    [helpful, hello] = [message["content"] for message in HELLO]
    expected = text(ask(client, HELLO))
    answer = ollama.generate(MODEL, hello, system=helpful, options=GREEDY)
    assert answer.response == expected
    parts = list(ollama.generate(MODEL, hello, system=helpful, options=GREEDY, stream=True))
    assert "".join(part.response for part in parts) == expected
    continued = complete(client, "Hello", max_tokens=4)
    raw = ollama.generate(MODEL, "Hello", raw=True, options={**GREEDY, "num_predict": 4})
    assert raw.response == continued.choices[0].text
    assert raw.done_reason == continued.choices[0].finish_reason


def test_a_schema_is_followed(ollama):
    schema = {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}},
        "required": ["mood"],
    }
    answer = ollama.chat(MODEL, HELLO, format=schema, options={**GREEDY, "num_predict": 60})
    assert json.loads(answer.message.content)["mood"] in ("good", "bad")


@pytest.mark.parametrize("think", [True, False, "low"])
def test_think_is_taken(ollama, think):
    """The bundled model does not think."""
    answer = ollama.chat(MODEL, HELLO, think=think, options=GREEDY)
    assert answer.message.content and not answer.message.thinking


def test_models_are_listed_and_shown(ollama):
    [listed] = ollama.list().models
    [running] = ollama.ps().models
    assert listed.model == running.model == f"{MODEL}:latest"
    assert listed.digest == running.digest
    assert running.context_length > 0 and running.expires_at.year > 2100
    for name in (MODEL, listed.model):
        shown = ollama.show(name)
        assert "completion" in shown.capabilities and "tools" in shown.capabilities
        family = shown.modelinfo["general.architecture"]
        assert shown.details.family == family
        assert shown.modelinfo[f"{family}.context_length"] == running.context_length


def test_errors_are_the_clients(ollama, hobd):
    with pytest.raises(ResponseError) as unknown:
        ollama.show("llama3")
    assert unknown.value.status_code == 404 and "'llama3' not found" in unknown.value.error
    with pytest.raises(ResponseError) as hot:
        ollama.chat(MODEL, HELLO, options={"temperature": 9})
    assert hot.value.status_code == 400 and "options.temperature" in hot.value.error
    with pytest.raises(ResponseError) as text_model:
        ollama.embed(MODEL, "tea")
    assert text_model.value.status_code == 400
    with pytest.raises(ResponseError) as pull:
        ollama.pull("llama3")
    assert pull.value.status_code == 501
    with pytest.raises(ResponseError) as closed:
        Client(host=hobd.url).list()
    assert closed.value.status_code == 401


def test_the_asynchronous_client_streams_too(hobd):
    async def said() -> str:
        client = AsyncClient(host=hobd.url, headers=bearer(hobd))
        parts = await client.chat(MODEL, HELLO, options=GREEDY, stream=True)
        return "".join([part.message.content async for part in parts])

    whole = Client(host=hobd.url, headers=bearer(hobd)).chat(MODEL, HELLO, options=GREEDY)
    assert asyncio.run(said()) == whole.message.content


def test_keep_alive_frees_the_weights_and_a_chat_loads_them(start):
    hobd = start()
    client = Client(host=hobd.url, headers=bearer(hobd))
    assert client.generate(MODEL, keep_alive=0).done_reason == "unload"
    assert client.ps().models == []
    answer = client.chat(MODEL, HELLO, options=GREEDY)
    assert answer.load_duration > 0 and client.ps().models


def test_clients_without_a_token_are_let_in_where_the_setting_says_so(start):
    hobd = start("--allow-without-token", "ollama")
    client = Client(host=hobd.url)
    assert client.chat(MODEL, HELLO, options=GREEDY).message.content
    with pytest.raises(ResponseError):
        Client(host=hobd.url, headers={"Origin": "https://evil.example"}).list()


def test_langchain_chats_streams_and_calls_tools(langchain, client):
    expected = text(ask(client, [HELLO[1]]))
    model = langchain(ChatOllama, validate_model_on_init=True)
    question = [HumanMessage(HELLO[1]["content"])]
    answer = model.invoke(question)
    assert answer.content == expected
    assert answer.usage_metadata["output_tokens"] > 0
    assert "".join(chunk.content for chunk in model.stream(question)) == expected

    tools = model.bind_tools([GET_WEATHER])
    asked = [("system", HELPFUL["content"]), ("user", WEATHER[1]["content"])]
    called = tools.invoke(asked)
    [call] = called.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Lima"})
    found = json.dumps({"sky": "sunny", "degrees": 31})
    result = ToolMessage(found, tool_call_id=call["id"], name="get_weather")
    assert tools.invoke([*asked, called, result]).content == "It is sunny in Lima, 31 degrees."


def test_langchain_completes_a_prompt(langchain, client):
    expected = text(ask(client, [HELLO[1]]))
    assert langchain(OllamaLLM).invoke(HELLO[1]["content"]) == expected
