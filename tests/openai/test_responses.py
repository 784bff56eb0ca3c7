"""The Responses API with the official client: what it sends, and what it reads."""

import asyncio
import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

from words import HELPFUL, MODEL, SET_LIGHT, ask, text, user

TOLD = "My locker code is 48213."
ASKED = "What is my locker code?"
LIGHT = {"type": "function", "strict": False, **SET_LIGHT["function"]}


def respond(client, words, **options):
    """A greedy response: equal inputs give equal answers."""
    options = {"model": MODEL, "temperature": 0, "max_output_tokens": 60, **options}
    return client.responses.create(input=words, **options)


def cached(response) -> int:
    return response.usage.input_tokens_details.cached_tokens


def test_a_response_is_the_answer_of_a_chat(client):
    chat = ask(client, [HELPFUL, user("What can you do?")], max_tokens=60)
    for instructions, words in [
        (HELPFUL["content"], "What can you do?"),
        (None, [HELPFUL, user("What can you do?")]),
    ]:
        response = respond(client, words, instructions=instructions)
        assert response.id.startswith("resp_")
        assert response.output[0].id.startswith("msg_")
        assert response.output_text == text(chat)
        assert response.usage.input_tokens == chat.usage.prompt_tokens
        assert response.usage.output_tokens == chat.usage.completion_tokens
        assert response.status == ("completed" if ends(chat) else "incomplete")


def ends(chat) -> bool:
    return chat.choices[0].finish_reason == "stop"


def test_a_response_is_streamed(client):
    whole = respond(client, "Hello!")
    events = list(respond(client, "Hello!", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    [message] = [event.item for event in events if event.type == "response.output_item.added"]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert {event.item_id for event in deltas} == {message.id}
    assert "".join(event.delta for event in deltas) == whole.output_text
    last = events[-1].response
    assert events[-1].type == f"response.{whole.status}"
    assert last.id == events[0].response.id
    assert last.output_text == whole.output_text
    assert last.usage.total_tokens == whole.usage.total_tokens


def test_the_clients_own_helper_reads_a_stream(client):
    with client.responses.stream(
        model=MODEL, input="Hello!", temperature=0, max_output_tokens=60
    ) as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    assert "response.output_text.done" in kinds
    assert response.output_text == respond(client, "Hello!").output_text


class Lamp(BaseModel):
    room: Literal["kitchen", "hall"]
    level: Literal[1, 2, 3]


@pytest.mark.parametrize("words", ["Turn on the kitchen light.", "Hello!"])
def test_an_answer_is_parsed_into_a_model(client, words):
    options = {"model": MODEL, "temperature": 0, "max_output_tokens": 200}
    response = client.responses.parse(input=words, text_format=Lamp, **options)
    assert isinstance(response.output_parsed, Lamp)
    with client.responses.stream(input=words, text_format=Lamp, **options) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed == response.output_parsed


def forced(client, **options):
    return respond(
        client,
        [HELPFUL, user("Turn on the kitchen light.")],
        tools=[LIGHT],
        tool_choice={"type": "function", "name": "set_light"},
        max_output_tokens=200,
        **options,
    )


def test_a_call_is_made_and_its_result_read(client):
    response = forced(client)
    [call] = [item for item in response.output if item.type == "function_call"]
    assert call.name == "set_light" and call.id.startswith("fc_")
    if response.status == "completed":
        assert set(json.loads(call.arguments)) == {"room", "state"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
    answer = respond(client, [result], previous_response_id=response.id, tools=[LIGHT])
    assert cached(answer) > 0
    history = [HELPFUL, user("Turn on the kitchen light."), *response.output, result]
    again = respond(client, history, tools=[LIGHT], store=False)
    assert again.usage.input_tokens == answer.usage.input_tokens
    assert again.output_text == answer.output_text


def test_a_streamed_call_is_assembled(client):
    events = list(forced(client, stream=True))
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    [done] = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert len(deltas) > 3 and "".join(deltas) == done.arguments
    [call] = events[-1].response.output
    assert (call.name, call.arguments) == ("set_light", done.arguments)


PATCH = '*** Begin Patch\n+ "é" \\\\ 😀\n*** End Patch\n'
HOME = {"type": "namespace", "name": "home", "description": "Lamps.", "tools": [LIGHT]}


def called(fake, name: str, arguments: dict, tool: dict):
    """The call that the fake model makes, whole and as it was assembled from a stream, and the tool's result."""
    client = fake.client()
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    options = {"model": MODEL, "input": f"Say this: <tool_call>\n{call}\n</tool_call>", "tools": [LIGHT, tool]}
    response = client.responses.create(**options)
    events = list(client.responses.create(**options, stream=True))
    [whole], [streamed] = response.output, events[-1].response.output
    kind = f"{whole.type}_output"
    result = {"type": kind, "call_id": whole.call_id, "output": "done"}
    asked = {**options, "input": [result, user("Say this: Done")], "previous_response_id": response.id}
    answer = client.responses.create(**asked)
    assert answer.output_text == "Done"
    items = client.responses.input_items.list(answer.id, order="asc").data
    assert [item.type for item in items] == ["message", whole.type, kind, "message"]
    return whole, streamed, events


def test_a_custom_tool_is_called_with_a_text(fake):
    tool = {"type": "custom", "name": "patch", "description": "Edits files."}
    whole, streamed, events = called(fake, "patch", {"input": PATCH}, tool)
    for call in whole, streamed:
        assert (call.type, call.name, call.input) == ("custom_tool_call", "patch", PATCH)
    deltas = [e.delta for e in events if e.type == "response.custom_tool_call_input.delta"]
    [done] = [e for e in events if e.type == "response.custom_tool_call_input.done"]
    assert len(deltas) > 3 and "".join(deltas) == done.input == PATCH


def test_a_function_of_a_namespace_is_called(fake):
    arguments = {"room": "hall", "state": "on"}
    whole, streamed, _ = called(fake, "home__set_light", arguments, HOME)
    for call in whole, streamed:
        assert (call.type, call.name, call.namespace) == ("function_call", "set_light", "home")
        assert json.loads(call.arguments) == arguments


def test_the_local_shell_is_called(fake):
    whole, streamed, _ = called(fake, "local_shell", {"command": ["ls", "-a"]}, {"type": "local_shell"})
    for call in whole, streamed:
        assert (call.type, call.action.command) == ("local_shell_call", ["ls", "-a"])


def test_a_custom_tool_demands_a_form_of_its_text(client):
    form = {"type": "grammar", "syntax": "regex", "definition": "[a-c]{4}"}
    response = respond(
        client,
        "Hello!",
        tools=[{"type": "custom", "name": "code", "format": form}],
        tool_choice={"type": "custom", "name": "code"},
        max_output_tokens=200,
    )
    [call] = [item for item in response.output if item.type == "custom_tool_call"]
    assert len(call.input) == 4 and set(call.input) <= set("abc")


def test_a_conversation_goes_on_from_a_response(client):
    told = respond(client, TOLD)
    asked = respond(client, ASKED, previous_response_id=told.id)
    history = [user(TOLD), {"role": "assistant", "content": told.output_text}, user(ASKED)]
    assert asked.output_text == text(ask(client, history, max_tokens=60))
    assert asked.previous_response_id == told.id
    assert cached(asked) >= told.usage.total_tokens - 1
    assert client.responses.retrieve(asked.id).output_text == asked.output_text
    items = client.responses.input_items.list(asked.id, order="asc")
    assert [item.content[0].text for item in items] == [TOLD, told.output_text, ASKED]


def test_a_response_is_followed_after_kill_9(start):
    hobd = start()
    told = respond(hobd.client(), TOLD * 8)
    hobd.until_saved()
    hobd.kill()
    hobd.start()
    client = hobd.client()
    asked = respond(client, ASKED, previous_response_id=told.id)
    assert cached(asked) >= told.usage.total_tokens - 1
    assert asked.hob["tokens"]["disk"] > 0
    assert hobd.metric("hob_restore_full_prefill_total") == 0


def test_a_conversation_is_created_and_filled(client):
    conversation = client.conversations.create()
    for words in (TOLD, ASKED):
        response = respond(client, words, conversation=conversation.id)
        assert response.conversation.id == conversation.id
    assert cached(response) > 0
    assert client.conversations.retrieve(conversation.id).id == conversation.id
    assert client.conversations.delete(conversation.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_a_response_is_deleted(client):
    told = respond(client, TOLD)
    client.responses.delete(told.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(told.id)
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, ASKED, previous_response_id=told.id)
    assert refused.value.code == "previous_response_not_found"
    assert refused.value.param == "previous_response_id"


def test_the_tokens_of_an_input_are_counted(client):
    counted = client.responses.input_tokens.count(model=MODEL, input=TOLD, tools=[LIGHT])
    assert counted.input_tokens == respond(client, TOLD, tools=[LIGHT]).usage.input_tokens


def test_what_hob_does_not_have_is_refused_by_name(client):
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}
    for options, param in [
        ({"background": True}, "background"),
        ({"tools": [{"type": "shell"}]}, "tools[0].type"),
        ({"tools": [LIGHT], "tool_choice": {"type": "file_search"}}, "tool_choice.type"),
        ({"words": [{"role": "user", "content": [picture]}]}, "input[0].content[0].type"),
    ]:
        with pytest.raises(openai.BadRequestError) as refused:
            respond(client, options.pop("words", "Hello!"), **options)
        assert refused.value.param == param


def test_the_async_client_works_too(hobd):
    async def both():
        async with hobd.async_client() as client:
            options = {"model": MODEL, "temperature": 0, "max_output_tokens": 60}
            whole = await client.responses.create(input="Hello!", **options)
            stream = await client.responses.create(input="Hello!", stream=True, **options)
            return whole, [event async for event in stream][-1].response

    whole, streamed = asyncio.run(both())
    assert whole.output_text == streamed.output_text
