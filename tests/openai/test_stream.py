"""Streamed answers."""

from words import MODEL, Chat, ask, text, user

QUESTION = "What can you do?"


def content(chunks, choice=0) -> str:
    deltas = [c.delta for chunk in chunks for c in chunk.choices if c.index == choice]
    return "".join(delta.content or "" for delta in deltas)


def test_streamed_chunks_join_to_the_whole_answer(client):
    chunks = list(ask(client, QUESTION, stream=True))
    assert content(chunks) == text(ask(client, QUESTION))
    assert len(chunks) > 5


def test_chunks_have_the_shape_that_clients_read(client):
    chunks = list(ask(client, QUESTION, stream=True))

    assert {(c.object, c.id, c.model) for c in chunks} == {
        ("chat.completion.chunk", chunks[0].id, chunks[0].model)
    }
    assert chunks[0].choices[0].delta.role == "assistant"
    reasons = [c.choices[0].finish_reason for c in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]


def test_the_first_chunk_has_message_ids_and_the_last_has_token_origins(client, name):
    chat = Chat(client, name)
    chat.say("My locker code is 48213.")
    history = [*chat.messages, user("What is my locker code?")]
    chunks = list(ask(client, history, stream=True, extra_body={"conversation": name}))

    first, *others, last = chunks
    assert all("hob" not in (chunk.model_extra or {}) for chunk in others)
    assert first.hob.keys() == {"conversation", "message", "parent"}
    assert {key: last.hob[key] for key in first.hob} == first.hob
    assert last.hob["conversation"] == name
    assert last.hob["tokens"]["computed"] < sum(last.hob["tokens"].values())


def test_usage_comes_once_and_only_on_request(client):
    silent = list(ask(client, QUESTION, stream=True))
    assert all(chunk.usage is None for chunk in silent)

    *chunks, last = ask(client, QUESTION, stream=True, stream_options={"include_usage": True})
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)
    whole = ask(client, QUESTION).usage
    assert last.choices == []
    assert last.usage.prompt_tokens == whole.prompt_tokens
    assert last.usage.completion_tokens == whole.completion_tokens
    assert sum(last.hob["tokens"].values()) == last.usage.prompt_tokens


def test_several_answers_are_streamed_side_by_side(client):
    chunks = list(ask(client, QUESTION, stream=True, n=3))
    expected = text(ask(client, QUESTION))
    assert [content(chunks, choice) for choice in range(3)] == [expected] * 3
    ends = sorted(c.index for chunk in chunks for c in chunk.choices if c.finish_reason)
    assert ends == [0, 1, 2]


def test_the_clients_own_helper_assembles_an_answer(client):
    with client.chat.completions.stream(
        model=MODEL, temperature=0, messages=[user(QUESTION)]
    ) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert text(answer) == text(ask(client, QUESTION))


def test_a_streamed_turn_is_stored_like_any_other(client, name):
    options = {"extra_body": {"conversation": name}}
    told = "My locker code is 48213."
    first = content(list(ask(client, told, stream=True, **options)))

    asked = [user(told), {"role": "assistant", "content": first}, user("What is my locker code?")]
    chunks = list(ask(client, asked, stream=True, **options))
    assert content(chunks) == "Your locker code is 48213."
    stored = client.get(f"/conversations/{name}", cast_to=object)
    assert [m["content"] for m in stored["messages"]] == [m["content"] for m in asked] + [
        content(chunks)
    ]
