"""Frameworks for agents whose default is the Responses API."""

import asyncio
from typing import Literal

import pytest
from agents import Agent as OpenAIAgent
from agents import ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel as PydanticModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings as PydanticSettings

from words import HELPFUL, MODEL

set_tracing_disabled(True)
WORDS = "Turn on the kitchen light."
MAX_TOKENS = 200

Room = Literal["kitchen", "hall"]


class Lamp(BaseModel):
    room: Room
    level: Literal[1, 2, 3]


@pytest.fixture
def agent(hobd):
    """An agent of openai-agents whose first answer calls its tool, and the calls."""
    calls = []

    @function_tool
    def set_light(room: Room) -> str:
        """Turn on a light."""
        calls.append(room)
        return "The light is on."

    return OpenAIAgent(
        name="Ember",
        instructions=HELPFUL["content"],
        tools=[set_light],
        model=OpenAIResponsesModel(model=MODEL, openai_client=hobd.async_client()),
        model_settings=ModelSettings(
            temperature=0, tool_choice="required", max_tokens=MAX_TOKENS, parallel_tool_calls=False
        ),
    ), calls


def conversations(hobd) -> set[str]:
    listed = hobd.client().get("/conversations", cast_to=object)["data"]
    return {conversation["id"] for conversation in listed}


def test_openai_agents_calls_a_tool_and_stays_in_one_conversation(hobd, agent):
    agent, calls = agent
    before = conversations(hobd)
    result = Runner.run_sync(agent, WORDS)
    assert calls and result.last_response_id.startswith("resp_")
    assert [type(item).__name__ for item in result.new_items[:2]] == [
        "ToolCallItem",
        "ToolCallOutputItem",
    ]
    assert result.context_wrapper.usage.input_tokens_details.cached_tokens > 0
    assert len(conversations(hobd) - before) == 1


def test_openai_agents_goes_on_from_a_response(hobd, agent):
    agent, _ = agent
    first = Runner.run_sync(agent, WORDS)
    second = Runner.run_sync(agent, "Hello!", previous_response_id=first.last_response_id)
    assert second.context_wrapper.usage.input_tokens_details.cached_tokens > 0
    items = hobd.client().responses.input_items.list(second.last_response_id, order="asc").data
    assert items[0].content[0].text == WORDS


def test_openai_agents_reads_a_stream(agent):
    agent, calls = agent

    async def run():
        result = Runner.run_streamed(agent, WORDS)
        texts = []
        async for event in result.stream_events():
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
                texts.append(event.data.delta)
        return texts, result.final_output

    texts, output = asyncio.run(run())
    assert calls and "".join(texts) == output


def test_openai_agents_gets_an_output_of_a_type(hobd):
    agent = OpenAIAgent(
        name="Ember",
        output_type=Lamp,
        model=OpenAIResponsesModel(model=MODEL, openai_client=hobd.async_client()),
        model_settings=ModelSettings(temperature=0, max_tokens=MAX_TOKENS),
    )
    assert isinstance(Runner.run_sync(agent, WORDS).final_output, Lamp)


@pytest.fixture
def model(hobd):
    """The model of pydantic-ai's default."""
    return PydanticModel(MODEL, provider=OpenAIProvider(openai_client=hobd.async_client()))


SETTINGS = PydanticSettings(temperature=0, max_tokens=MAX_TOKENS, parallel_tool_calls=False)


def test_pydantic_ai_answers_and_streams(model):
    agent = Agent(model, instructions=HELPFUL["content"], model_settings=SETTINGS)

    async def both():
        whole = await agent.run("Hello!")
        async with agent.run_stream("Hello!") as result:
            return whole, await result.get_output()

    whole, streamed = asyncio.run(both())
    assert streamed == whole.output
    assert whole.usage.input_tokens > 0


def test_pydantic_ai_gets_a_typed_output_by_a_call(model):
    agent = Agent(model, output_type=Lamp, model_settings=SETTINGS)
    assert isinstance(agent.run_sync(WORDS).output, Lamp)


def test_pydantic_ai_goes_on_from_its_history(model):
    agent = Agent(model, output_type=Lamp, model_settings=SETTINGS)
    first = agent.run_sync(WORDS)
    second = agent.run_sync("Hello!", message_history=first.all_messages())
    assert isinstance(second.output, Lamp)
    assert second.usage.cache_read_tokens > 0
