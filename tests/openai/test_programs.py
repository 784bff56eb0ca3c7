"""Frameworks that make programs of prompts, on OpenAI's API: chats, streams, tools, answers of a form."""

from typing import Literal

import dspy
import outlines
import pytest
from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from mirascope import llm
from outlines.inputs import Chat
from pydantic import BaseModel

from words import HELPFUL, MODEL, SET_LIGHT, ask, text, user

HELLO = [HELPFUL, user("Hello!")]
WEATHER = "How is the weather in Lima?"
FOUND = '{"sky": "sunny", "degrees": 31}'
SUNNY = "It is sunny in Lima, 31 degrees."
Moods = Literal["good", "bad"]


class Mood(BaseModel):
    mood: Moods


@pytest.fixture
def greeting(client):
    return text(ask(client, HELLO))


def dspy_model(hobd, **options) -> dspy.LM:
    places = {"api_base": f"{hobd.url}/v1", "api_key": hobd.token}
    return dspy.LM(f"openai/{MODEL}", temperature=0, max_tokens=80, cache=False, num_retries=0, **places, **options)


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_dspy_asks_over_both_of_openais_apis(hobd, greeting, kind):
    [answer] = dspy_model(hobd, model_type=kind)(messages=HELLO)
    assert (answer if kind == "chat" else answer["text"]) == greeting


def test_dspy_gets_a_call_and_an_answer_of_a_schema(hobd):
    model = dspy_model(hobd)
    light = [HELPFUL, user("Turn on the kitchen light.")]
    [answer] = model(messages=light, tools=[SET_LIGHT])
    [call] = answer["tool_calls"]
    assert call.function.name == "set_light"
    [answer] = model(messages=HELLO, response_format=Mood)
    assert Mood.model_validate_json(answer)


def test_dspy_names_a_prompt_that_is_too_long(hobd):
    with pytest.raises(dspy.ContextWindowExceededError):
        dspy_model(hobd)(messages=[user("Hello! " * 20_000)])


@pytest.fixture
def outlined(client):
    """Outlines' models of OpenAI's client: for OpenAI itself, for vLLM and for SGLang."""
    return [make(client, MODEL) for make in (outlines.from_openai, outlines.from_vllm, outlines.from_sglang)]


GREEDY = {"temperature": 0, "max_tokens": 80}


def test_outlines_answers_and_streams(outlined, greeting):
    for model in outlined:
        assert model(Chat(HELLO), **GREEDY) == greeting
        assert "".join(model.stream(Chat(HELLO), **GREEDY)) == greeting


def test_outlines_gets_json_of_a_type(outlined):
    for model in outlined:
        assert Mood.model_validate_json(model(Chat(HELLO), Mood, **GREEDY))


@pytest.mark.filterwarnings("ignore:SGLang grammar-based")
def test_outlines_gets_other_forms_from_servers_that_have_them(outlined):
    _, *servers = outlined
    for model in servers:
        assert model(Chat(HELLO), Literal["yes", "no"], **GREEDY) in ("yes", "no")
        assert model(Chat(HELLO), outlines.regex("[0-9]{3}"), **GREEDY).isdigit()
        assert model(Chat(HELLO), outlines.cfg('root ::= "yes" | "no"'), **GREEDY) in ("yes", "no")


def agno(hobd, **options) -> Agent:
    model = OpenAILike(id=MODEL, base_url=f"{hobd.url}/v1", api_key=hobd.token, temperature=0, max_tokens=80)
    return Agent(model=model, system_message=HELPFUL["content"], telemetry=False, **options)


def test_agno_answers_and_streams(hobd, greeting):
    assert agno(hobd).run("Hello!").content == greeting
    events = agno(hobd).run("Hello!", stream=True)
    assert "".join(event.content for event in events if event.event == "RunContent") == greeting


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    assert city == "Lima"
    return FOUND


def test_agno_calls_a_tool_and_reads_its_result(hobd):
    assert agno(hobd, tools=[get_weather]).run(WEATHER).content == SUNNY


def test_agno_gets_an_answer_of_a_type(hobd):
    assert isinstance(agno(hobd, output_schema=Mood).run("Hello!").content, Mood)


@pytest.fixture
def mirascope(fake):
    """It leaves the temperature out, so that a real model would answer differently each time."""

    def model(daemon=fake, token: str | None = None) -> llm.Model:
        place = {"base_url": f"{daemon.url}/v1", "api_key": token or daemon.token}
        llm.register_provider("openai:completions", scope="openai/", **place)
        return llm.Model(f"openai/{MODEL}", max_tokens=400)

    return model


def test_mirascope_answers_and_streams(mirascope):
    messages = [llm.messages.system("Be brief."), llm.messages.user("Say this: Hello there")]
    assert mirascope().call(messages).text() == "Hello there"
    assert list(mirascope().stream(messages).text_stream())[:2] == ["H", "e"]


def test_mirascope_calls_a_tool_and_goes_on_with_its_result(mirascope):
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lima"}}\n</tool_call>'
    response = mirascope().call([llm.messages.user(f"Say this: {call}")], tools=[llm.tool(get_weather)])
    [output] = response.execute_tools()
    assert output.result == FOUND
    assert response.resume([output, "Say this: Done"]).text() == "Done"


def test_mirascope_gets_an_answer_of_a_type(mirascope):
    assert isinstance(mirascope().call([llm.messages.user("Hello!")], format=Mood).parse(), Mood)


def test_mirascope_raises_errors_of_its_own(hobd, mirascope):
    with pytest.raises(llm.BadRequestError, match="maximum context length"):
        mirascope(hobd).call([llm.messages.user("Hello! " * 20_000)])
    with pytest.raises(llm.AuthenticationError):
        mirascope(hobd, "other").call([llm.messages.user("Hello!")])
