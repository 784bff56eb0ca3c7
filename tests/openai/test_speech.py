"""Speculative prefill while the user speaks, over HTTP and over a WebSocket."""

import json

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from hobd import until
from words import Chat, ask, computed, system, text, user

TOLD = ["My locker code is 48213.", "My favorite color is teal."]
QUESTION = "What is my locker code?"


@pytest.fixture
def room(start):
    """A daemon restarted after a conversation: its KV is on disk, none of it is hot."""
    hobd = start()
    chat = Chat(hobd.client(), "room")
    for sentence in TOLD:
        chat.say(sentence)
    hobd.until_saved()
    hobd.kill()
    hobd.start()
    return hobd


def cold(hobd) -> str:
    """The answer in a conversation without speculation."""
    stored = hobd.client().get("/conversations/room", cast_to=object)["messages"]
    messages = [{"role": m["role"], "content": m["content"]} for m in stored]
    return text(ask(hobd.client(), [*messages, user(QUESTION)], max_tokens=32))


def speech(hobd, what: str, **body) -> dict:
    return hobd.client().post(f"/conversations/room/{what}", body=body, cast_to=object)


def socket(hobd, **options):
    return connect(f"{hobd.url.replace('http', 'ws')}/v1/realtime/events", **options)


def until_hot(hobd, at_least: int) -> None:
    until(lambda: hobd.metric("hob_ahead_total") >= at_least, "computed ahead")
    until(lambda: not hobd.busy_slots(), "hot")


def test_speech_is_answered_like_a_chat_and_computes_almost_nothing(room):
    speech(room, "speech-start")
    until_hot(room, 1)
    assert speech(room, "transcript", text="What is my")["certain"] == ""
    assert speech(room, "transcript", text="What is my locker")["certain"] == "What is my"
    until_hot(room, 2)
    speech(room, "transcript", text=QUESTION, final=True)
    until_hot(room, 3)
    expected = cold(room)
    answer = speech(room, "speech-end", temperature=0, max_tokens=32)
    assert answer["choices"][0]["message"]["content"] == expected
    assert answer["hob"]["tokens"]["computed"] <= 1
    assert answer["hob"]["miss"] is None


def test_the_same_over_a_websocket(room):
    expected = cold(room)
    with socket(room, additional_headers={"Authorization": f"Bearer {room.token}"}) as ws:

        def send(kind: str, **fields) -> None:
            ws.send(json.dumps({"type": kind, **fields}))

        def receive(kind: str) -> dict:
            while (event := json.loads(ws.recv(timeout=30)))["type"] != kind:
                assert event["type"] != "error", event
            return event

        receive("session.created")
        session = {"conversation": "room", "temperature": 0, "max_tokens": 32}
        send("session.update", session=session)
        receive("session.updated")
        send("input_audio_buffer.speech_started")
        until_hot(room, 1)
        send("conversation.item.input_audio_transcription.delta", delta="What is my")
        send("conversation.item.input_audio_transcription.delta", delta=" locker")
        send("input_audio_buffer.speech_stopped")
        send("conversation.item.input_audio_transcription.completed", transcript=QUESTION)
        done = receive("response.done")
    assert done["response"]["output"][0]["content"][0]["text"] == expected
    tokens = done["hob"]["tokens"]
    assert tokens["disk"] == 0  # The restore preceded the text.
    assert tokens["shared"] > tokens["computed"]


def test_a_websocket_needs_the_token(hobd):
    with pytest.raises(InvalidStatus) as refused:
        socket(hobd)
    assert refused.value.response.status_code == 401
    with socket(hobd, subprotocols=["realtime", f"hob-token.{hobd.token}"]) as ws:
        assert ws.subprotocol == "realtime"
        assert json.loads(ws.recv(timeout=30))["type"] == "session.created"


def test_max_tokens_of_zero_makes_the_prompt_hot(client, name):
    messages = [system("You are Ember, a calm home assistant."), user("Hello!")]
    options = {"extra_body": {"conversation": name}}
    nothing = ask(client, messages, max_tokens=0, **options)
    assert (text(nothing), nothing.choices[0].finish_reason) == ("", "length")
    assert computed(ask(client, messages, **options)) <= 1
