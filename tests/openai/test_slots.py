"""Slots: freed when a client disconnects, shared fairly by more conversations than slots."""

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from hobd import until
from words import Chat, ask, text

ENDLESS = {"max_tokens": 6000, "extra_body": {"ignore_eos": True}}


def test_a_client_that_disconnects_midway_frees_its_slot(start):
    hobd = start("--slots", "1")
    client = hobd.client()
    stream = ask(client, "Tell me a joke.", stream=True, **ENDLESS)
    for _, chunk in zip(range(5), stream):
        assert chunk.choices
    assert hobd.busy_slots()

    stream.close()
    until(lambda: not hobd.busy_slots(), "the slot is free")
    status = hobd.status()
    assert status["counters"]["cancelled"] == 1
    assert status["counters"]["generated_tokens"] < 5000
    assert text(ask(client, "Hello!")) == "Hello! How can I help you?"


def test_a_client_that_times_out_frees_its_slot(start):
    hobd = start("--slots", "1")
    with pytest.raises(openai.APITimeoutError):
        ask(hobd.client(timeout=0.3), "Tell me a joke.", **ENDLESS)
    until(lambda: not hobd.busy_slots(), "the slot is free")
    assert hobd.status()["counters"]["cancelled"] == 1


def test_a_queued_client_that_disconnects_leaves_the_queue(start):
    hobd = start("--slots", "1")
    stream = ask(hobd.client(), "Tell me a joke.", stream=True, **ENDLESS)
    next(stream)
    with pytest.raises(openai.APITimeoutError):
        ask(hobd.client(timeout=0.3), "Hello!")
    until(lambda: hobd.status()["queue"] == 0, "the queue is empty")
    stream.close()
    until(lambda: not hobd.busy_slots(), "the slot is free")


def test_a_full_queue_refuses_with_retry_after(start):
    hobd = start("--slots", "1", "--queue", "1")
    client = hobd.client()
    streams = [ask(client, "Tell me a joke.", stream=True, **ENDLESS)]
    next(streams[0])
    with ThreadPoolExecutor() as pool:
        waits = pool.submit(ask, client, "Hello!")
        until(lambda: hobd.status()["queue"] == 1, "one waits")
        with pytest.raises(openai.InternalServerError) as refused:
            ask(client, "Hello!")
        assert (refused.value.status_code, refused.value.code) == (503, "queue_full")
        assert int(refused.value.response.headers["retry-after"]) >= 1
        streams[0].close()
        assert text(waits.result()) == "Hello! How can I help you?"


def test_the_clients_own_retries_succeed(start):
    hobd = start("--slots", "1", "--queue", "2")
    with ThreadPoolExecutor(6) as pool:
        patient = hobd.client(max_retries=20)
        answers = list(pool.map(lambda _: text(ask(patient, "Hello!")), range(6)))
    assert answers == ["Hello! How can I help you?"] * 6


def talk(client, name: str, number: int) -> list[str]:
    """A conversation about a number of its own."""
    chat = Chat(client, name)
    words = [f"My locker code is {number}.", "My favorite color is teal.", "What is 3 plus 4?"]
    words += ["What is my locker code?", "What is my favorite color?"]
    return [text(chat.say(sentence)) for sentence in words]


def test_six_conversations_over_two_slots_say_what_each_says_alone(start):
    hobd = start("--slots", "2")
    client = hobd.client()
    numbers = [48213, 93107, 7245, 61938, 352, 8174]

    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda n: talk(client, f"together {n}", n), numbers))
    alone = [talk(client, f"alone {n}", n) for n in numbers]

    assert together == alone
    for number, said in zip(numbers, together):
        assert not any(str(other) in " ".join(said) for other in numbers if other != number)
    assert sum(said[3] == f"Your locker code is {n}." for n, said in zip(numbers, together)) >= 4
    status = hobd.status()
    assert len(status["slots"]) == 2
    assert status["counters"]["parked"] > 0
    assert status["counters"]["import_failures"] == 0
    assert hobd.metric("hob_restore_full_prefill_total") == 0


def test_turns_of_one_conversation_are_served_one_after_the_other(start):
    hobd = start("--slots", "2")
    client = hobd.client()

    def append(number: int) -> str:
        body = {"conversation": "one", "hob": {"append": True}}
        return text(ask(client, f"My badge number is {number}.", extra_body=body))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(1000, 1008)))
    kept = client.get("/conversations/one", cast_to=object)["messages"]
    assert [m["role"] for m in kept] == ["user", "assistant"] * 8
    assert len({m["content"] for m in kept if m["role"] == "user"}) == 8
