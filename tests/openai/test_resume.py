"""A conversation outlives its slot, its process and the loss of its KV."""

import shutil

import pytest

from hobd import until
from words import Chat, computed, places, text

TOLD = ["My locker code is 48213.", "My favorite color is teal.", "What is 3 plus 4?"]


def told(hobd, name="chat", words=TOLD) -> Chat:
    chat = Chat(hobd.client(), name)
    for sentence in words:
        chat.say(sentence)
    hobd.until_saved()
    return chat


def restarted(hobd, chat: Chat) -> None:
    hobd.start()
    chat.client = hobd.client()


def test_after_kill_9_the_next_answer_computes_its_new_tokens_only(start):
    hobd = start()
    chat = told(hobd)
    hobd.kill()
    restarted(hobd, chat)

    answer = chat.say("What is my locker code?")
    assert text(answer) == "Your locker code is 48213."
    assert computed(answer) == chat.new_tokens
    assert places(answer)["disk"] == answer.usage.prompt_tokens - chat.new_tokens
    assert answer.hob["miss"] is None
    assert hobd.metric("hob_restore_full_prefill_total") == 0

    hobd.until_saved()
    answer = chat.say("What is my favorite color?")
    assert text(answer) == "Your favorite color is teal."
    assert places(answer)["disk"] == 0  # The restore made it hot.
    assert computed(answer) == chat.new_tokens


def test_after_sigterm_the_next_answer_computes_its_new_tokens_only(start):
    hobd = start()
    chat = told(hobd)
    assert hobd.stop() == 0
    restarted(hobd, chat)

    answer = chat.say("What is my locker code?")
    assert text(answer) == "Your locker code is 48213."
    assert computed(answer) == chat.new_tokens


def test_sigterm_saves_the_last_turn(start):
    hobd = start()
    chat = Chat(hobd.client(), "chat")
    chat.say("My locker code is 48213.")
    hobd.stop()
    restarted(hobd, chat)

    answer = chat.say("What is my locker code?")
    assert computed(answer) == chat.new_tokens


def test_a_restart_restores_only_the_conversation_with_a_turn(start):
    hobd = start()
    first, second = told(hobd, "first"), told(hobd, "second", ["My seat is B12.", "Hello!"])
    hobd.kill()
    restarted(hobd, first)

    answer = first.say("What is my locker code?")
    assert {s["conversation"] for s in hobd.status()["slots"]} == {"first", None}
    assert places(answer)["disk"] > 0

    second.client = hobd.client()
    answer = second.say("What is my seat?")
    assert text(answer) == "Your seat is B12."
    assert computed(answer) == second.new_tokens


def test_a_displaced_conversation_is_restored_from_memory(start):
    hobd = start("--slots", "1")
    first, second = told(hobd, "first"), told(hobd, "second", ["My seat is B12.", "Hello!"])

    answer = first.say("What is my locker code?")
    assert text(answer) == "Your locker code is 48213."
    assert places(answer)["memory"] > 0
    assert computed(answer) == first.new_tokens

    hobd.until_saved()
    answer = second.say("What is my seat?")
    assert text(answer) == "Your seat is B12."
    assert computed(answer) == second.new_tokens


def test_an_idle_conversation_is_parked_and_restored(start):
    hobd = start("--idle-park-secs", "1")
    chat = told(hobd)
    until(lambda: hobd.status()["parked"], "parked")
    answer = chat.say("What is my locker code?")
    assert places(answer)["memory"] == answer.usage.prompt_tokens - chat.new_tokens


def test_changing_slots_and_context_orphans_no_file(start):
    hobd = start("--slots", "1", "--ctx", "1024")
    chat = told(hobd)
    hobd.kill()
    hobd.flags = ("--slots", "6", "--ctx", "4096")
    restarted(hobd, chat)

    answer = chat.say("What is my locker code?")
    assert computed(answer) == chat.new_tokens


def test_losing_every_kv_file_loses_time_and_no_text(start):
    hobd = start()
    chat = told(hobd)
    hobd.kill()
    shutil.rmtree(hobd.slots_dir)
    restarted(hobd, chat)

    stored = hobd.client().get("/conversations/chat", cast_to=object)
    assert [m["content"] for m in stored["messages"]] == [m["content"] for m in chat.messages]
    answer = chat.say("What is my locker code?")
    assert text(answer) == "Your locker code is 48213."
    assert computed(answer) == answer.usage.prompt_tokens


@pytest.mark.parametrize("what", ["slot file", "objects", "objects cut short"])
def test_damage_is_a_miss_with_a_reason_and_never_a_wrong_word(start, what):
    hobd = start()
    chat = told(hobd)
    hobd.kill()
    pattern = "*/*.bin" if what == "slot file" else "*/objects/*/*"
    files = sorted(f for f in hobd.slots_dir.glob(pattern) if f.is_file())
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content[: len(content) // 2] if what.endswith("short") else content)
    restarted(hobd, chat)

    answer = chat.say("What is my locker code?")
    assert text(answer) == "Your locker code is 48213."
    assert answer.hob["miss"]
    if what != "slot file":  # Blocks are found by name, even without the slot file.
        assert computed(answer) == answer.usage.prompt_tokens
    assert hobd.status()["counters"]["rejected_files"] > 0
    assert hobd.status()["counters"]["import_failures"] == 0


def test_prompt_text_never_reaches_the_log(start):
    hobd = start("--log", "trace")
    chat = told(hobd)
    hobd.stop()
    log = hobd.log()
    assert len(log.splitlines()) > 10
    for secret in ["48213", "teal", "locker", "I will remember", hobd.token]:
        assert secret not in log, secret
    assert chat.tokens > 0
