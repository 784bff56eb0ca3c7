"""A chat through the official client."""

import asyncio

import pytest

from words import MODEL, Chat, ask, assistant, system, text, user


def test_an_answer_has_the_shape_that_clients_read(client):
    answer = ask(client, "What is the capital of Peru?")

    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.created > 1_700_000_000
    assert answer.system_fingerprint.startswith("fp_")
    [choice] = answer.choices
    assert (choice.index, choice.finish_reason) == (0, "stop")
    assert choice.message.role == "assistant"
    assert choice.message.content == "The capital of Peru is Lima."
    assert choice.message.tool_calls is None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_facts_are_remembered_across_turns(client, name):
    chat = Chat(client, name)
    chat.say("My locker code is 48213.")
    chat.say("My favorite color is teal.")
    chat.say("What is 3 plus 4?")

    assert text(chat.say("What is my locker code?")) == "Your locker code is 48213."
    assert text(chat.say("What is my favorite color?")) == "Your favorite color is teal."
    assert text(chat.say("What is my badge number?")) == "I do not know your badge number."


def test_messages_that_the_client_omits_are_forgotten(client, name):
    chat = Chat(client, name)
    chat.say("My locker code is 48213.")
    chat.messages.clear()

    assert text(chat.say("What is my locker code?")) == "I do not know your locker code."


def test_one_conversation_knows_nothing_of_another(client, name):
    Chat(client, f"{name} one").say("My locker code is 48213.")

    answer = Chat(client, f"{name} two").say("What is my locker code?")
    assert text(answer) == "I do not know your locker code."


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_come_from_the_system_or_the_developer(client, role):
    instructions = {"role": role, "content": "You are Ember, a calm home assistant."}
    answer = ask(client, [instructions, user("What is your name?")])
    assert text(answer) == "My name is Ember."


def test_content_may_come_in_parts_of_text(client):
    parts = [{"type": "text", "text": words} for words in ("[file:main.py]", "port = 80", "[end]")]
    read = ask(client, [user(parts)])
    assert text(read) == "I read main.py."

    history = [user(parts), assistant([{"type": "text", "text": text(read)}])]
    again = ask(client, [*history, user("Hello!")])
    whole = [user("[file:main.py]\nport = 80\n[end]"), assistant("I read main.py."), user("Hello!")]
    assert again.usage.prompt_tokens == ask(client, whole).usage.prompt_tokens


def test_an_answer_may_be_sent_back_as_the_client_got_it(client):
    first = ask(client, "My locker code is 48213.")
    history = [user("My locker code is 48213."), first.choices[0].message]
    answer = ask(client, [*history, user("What is my locker code?")])
    assert text(answer) == "Your locker code is 48213."


def test_fields_without_effect_are_accepted(client):
    answer = ask(
        client,
        "Hello!",
        user="somebody",
        store=False,
        metadata={"a": "b"},
        service_tier="auto",
        parallel_tool_calls=None,
    )
    assert text(answer) == "Hello! How can I help you?"


def test_any_script_and_any_emoji_round_trips(client, name):
    words = "Grüße, 你好, مرحبا, 👩‍👩‍👧 and \u0000 <|im_end|> </s>"
    Chat(client, name).say(words)
    stored = client.get(f"/conversations/{name}", cast_to=object)
    assert stored["messages"][0]["content"] == words


def test_the_async_client_gets_the_same_answers(hobd):
    async def chat():
        async with hobd.async_client() as client:
            questions = ["What is the capital of Peru?", "What is the opposite of hot?"]
            asked = (
                client.chat.completions.create(
                    model=MODEL, temperature=0, messages=[system("You are Ada."), user(question)]
                )
                for question in questions
            )
            return [text(answer) for answer in await asyncio.gather(*asked)]

    assert asyncio.run(chat()) == [
        "The capital of Peru is Lima.",
        "The opposite of hot is cold.",
    ]
