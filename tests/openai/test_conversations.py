"""Conversations are stored, and can be listed, read, renamed, continued and deleted."""

from urllib.parse import quote

import openai
import pytest

from hobd import until
from words import Chat, ask, computed, text, user


def append(client, name: str, *words: str, **options):
    body = {"conversation": name, "hob": {"append": True}}
    return ask(client, [user(w) for w in words], extra_body=body, **options)


def read(client, name: str) -> dict:
    return client.get(f"/conversations/{name}", cast_to=object)


def contents(conversation: dict) -> list[str]:
    return [message["content"] for message in conversation["messages"]]


def test_a_conversation_is_stored_whole(client, name):
    chat = Chat(client, name)
    chat.say("My locker code is 48213.")
    chat.say("What is my locker code?")

    kept = read(client, name)
    assert kept["object"] == "conversation" and kept["id"] == name
    assert kept["title"] == "My locker code is 48213."
    assert contents(kept) == [message["content"] for message in chat.messages]
    assert [m["role"] for m in kept["messages"]] == ["user", "assistant"] * 2
    assert {m["status"] for m in kept["messages"]} == {"complete"}
    last = kept["messages"][-1]["finish"]
    assert last["finish_reason"] == "stop"
    assert last["usage"]["total_tokens"] == chat.tokens


def test_a_client_may_send_only_new_messages(hobd, client, name):
    first = append(client, name, "My locker code is 48213.")
    append(client, name, "My favorite color is teal.")
    hobd.until_saved()
    answer = append(client, name, "What is my locker code?")

    assert text(answer) == "Your locker code is 48213."
    assert computed(answer) < 20 < answer.usage.prompt_tokens
    assert len(read(client, name)["messages"]) == 6
    assert first.hob["conversation"] == name


def test_an_append_computes_what_the_whole_history_would(hobd, client, name):
    chat = Chat(client, f"{name} whole")
    for words in ["My locker code is 48213.", "What is my locker code?"]:
        hobd.until_saved()
        whole, new = chat.say(words), append(client, f"{name} new", words)
        assert new.usage.prompt_tokens == whole.usage.prompt_tokens
        assert text(new) == text(whole)


def test_an_empty_append_answers_the_last_message_again(client, name):
    first = append(client, name, "What is the capital of Peru?")
    again = append(client, name)
    assert text(again) == text(first)
    assert len(read(client, name)["messages"]) == 2
    branches = client.get(f"/conversations/{name}?branches=true", cast_to=object)
    assert len(branches["messages"]) == 3


def test_an_append_needs_a_message_to_answer(client, name):
    with pytest.raises(openai.BadRequestError) as refused:
        append(client, name)
    assert refused.value.param == "messages"


def test_an_edited_history_is_a_branch_and_loses_nothing(client, name):
    chat = Chat(client, name)
    chat.say("My locker code is 48213.")
    edited = [user("My locker code is 99.")]
    answer = ask(client, edited, extra_body={"conversation": name})

    assert contents(read(client, name)) == ["My locker code is 99.", text(answer)]
    branches = client.get(f"/conversations/{name}?branches=true", cast_to=object)
    assert "My locker code is 48213." in contents(branches)


def test_the_latest_is_listed_first(client, name):
    for which in ("one", "two"):
        Chat(client, f"{name} {which}").say("Hello!")
    listed = client.get("/conversations", cast_to=object)
    assert listed["object"] == "list"
    mine = [c for c in listed["data"] if c["id"].startswith(name)]
    assert {c["id"] for c in mine} == {f"{name} one", f"{name} two"}
    assert all(c["message_count"] == 2 and c["title"] == "Hello!" for c in mine)
    times = [c["updated_at"] for c in listed["data"]]
    assert times == sorted(times, reverse=True)


def test_the_list_shows_the_tier_of_the_kv(hobd, client, name):
    answer = Chat(client, name).say("Hello!")
    hobd.until_saved()
    kept = read(client, name)
    assert (kept["place"], kept["slot"]) == ("slot", answer.hob["slot"])
    assert kept["tokens"] == answer.usage.total_tokens


def test_a_conversation_can_be_renamed(client, name):
    Chat(client, name).say("Hello!")
    renamed = client.patch(f"/conversations/{name}", cast_to=object, body={"title": "Greetings"})
    assert renamed["title"] == read(client, name)["title"] == "Greetings"
    for title in ["", "two\nlines", "x" * 500, 5]:
        with pytest.raises(openai.BadRequestError) as refused:
            client.patch(f"/conversations/{name}", cast_to=object, body={"title": title})
        assert refused.value.param == "title"


def test_a_deleted_conversation_loses_its_text_and_kv(hobd, client, name):
    chat = Chat(client, name)
    chat.say("My locker code is 48213.")
    hobd.until_saved()
    gone = client.delete(f"/conversations/{name}", cast_to=object)
    assert gone == {"id": name, "object": "conversation.deleted", "deleted": True}

    for call in (
        lambda: read(client, name),
        lambda: client.delete(f"/conversations/{name}", cast_to=object),
        lambda: client.patch(f"/conversations/{name}", cast_to=object, body={"title": "a"}),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            call()
        assert refused.value.code == "conversation_not_found"
    hobd.until_saved()
    assert not list(hobd.slots_dir.glob(f"*/{name}.*"))
    assert name not in {slot["conversation"] for slot in hobd.status()["slots"]}
    answer = append(client, name, "What is my locker code?")
    assert text(answer) == "I do not know your locker code."


@pytest.mark.parametrize("odd", ["a b", "ä/ö", "%2e%2e%2f", "../up", "x" * 200, "con", "'; --"])
def test_odd_ids_are_stored_and_found_unchanged(hobd, client, odd):
    before = set(hobd.directory.iterdir())
    ask(client, "Hello!", extra_body={"conversation": odd})
    path = f"/conversations/{quote(odd, safe='')}"
    assert read(client, quote(odd, safe=""))["id"] == odd
    assert odd in {c["id"] for c in client.get("/conversations", cast_to=object)["data"]}
    assert client.delete(path, cast_to=object)["deleted"]
    assert set(hobd.directory.iterdir()) == before


def test_the_text_of_a_cancelled_answer_is_stored(hobd, client, name):
    body = {"conversation": name, "ignore_eos": True}
    stream = ask(client, "Tell me a joke.", stream=True, max_tokens=4000, extra_body=body)
    heard = ""
    for chunk in stream:
        heard += chunk.choices[0].delta.content or ""
        if len(heard) > 60:
            break
    stream.close()
    until(lambda: read(client, name)["messages"][-1]["status"] == "interrupted", "interrupted")
    assert read(client, name)["messages"][-1]["content"].startswith(heard)
    assert text(append(client, name, "Hello!", max_tokens=40))
    assert [m["role"] for m in read(client, name)["messages"]] == ["user", "assistant"] * 2
