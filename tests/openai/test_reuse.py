"""A follow-up computes its new tokens only, and reports that correctly."""

from words import Chat, ask, cached, computed, places, system, text, user

RULES = system("You are Ember, a calm home assistant. " + "Do not make up facts. Use plain words. " * 8)


def test_a_follow_up_computes_exactly_its_new_tokens(hobd, client, name):
    chat = Chat(client, name)
    # A code of its own: where another test's conversation began alike, the two share cells beyond the answer.
    chat.say("My locker code is 71350.")
    for words in ["My badge number is 77.", "What is my locker code?", "What is my badge number?"]:
        hobd.until_saved()  # The last token of an answer is computed after it.
        answer = chat.say(words)
        assert computed(answer) == chat.new_tokens
        assert answer.hob["miss"] is None


def test_the_token_counts_by_origin_add_up(client, name):
    chat = Chat(client, name, RULES)
    for words in ["Hello!", "My seat is B12.", "What is my seat?"]:
        answer = chat.say(words)
        origins = {"shared", "memory", "disk", "away", "moved", "computed"}
        assert set(places(answer)) == origins | {"repaired", "lossy"}
        assert sum(places(answer)[origin] for origin in origins) == answer.usage.prompt_tokens
        assert cached(answer) == answer.usage.prompt_tokens - computed(answer)


def test_every_answer_has_a_hob_object(client, name):
    hob = Chat(client, name).say("Hello!").hob
    assert hob["conversation"] == name
    assert hob["slot"] in range(4)
    assert 0 <= hob["restore_ms"] <= hob["ttft_ms"]
    assert hob["miss"] is None


def test_an_anonymous_request_is_answered_and_not_stored(client):
    answer = ask(client, "Hello!")
    assert answer.hob["conversation"] is None
    assert sum(places(answer).values()) == answer.usage.prompt_tokens


def test_the_same_question_again_computes_one_token(hobd, client, name):
    chat = Chat(client, name, RULES)
    first = chat.say("What is the capital of Peru?")
    hobd.until_saved()
    asked = [RULES, user("What is the capital of Peru?")]
    again = ask(client, asked, extra_body={"conversation": name})
    assert computed(again) == 1
    assert text(again) == text(first)


def test_an_edited_message_computes_from_the_edit_on(hobd, client, name):
    chat = Chat(client, name, RULES)
    chat.say("My locker code is 48213.")
    chat.say("What is my locker code?")
    hobd.until_saved()

    edited = [RULES, user("My locker code is 99.")]
    answer = ask(client, edited, extra_body={"conversation": name})
    assert 1 <= computed(answer) < 25 < cached(answer)
    followed = [*edited, answer.choices[0].message, user("What is my locker code?")]
    answer = ask(client, followed, extra_body={"conversation": name})
    assert text(answer) == "Your locker code is 99."


def test_conversations_with_an_equal_prefix_share_it(client, name):
    Chat(client, f"{name} one", RULES).say("My seat is B12.")
    answer = Chat(client, f"{name} two", RULES).say("What is my seat?")
    assert places(answer)["shared"] > 80
    assert computed(answer) < 25
    assert text(answer) == "I do not know your seat."


def test_the_header_names_a_conversation_too(hobd, client, name):
    options = {"extra_headers": {"X-Session-Id": name}}
    told = ask(client, "My locker code is 48213.", **options)
    hobd.until_saved()
    history = [user("My locker code is 48213."), told.choices[0].message]
    answer = ask(client, [*history, user("What is my locker code?")], **options)

    assert told.hob["conversation"] == answer.hob["conversation"] == name
    assert computed(answer) == answer.usage.prompt_tokens - told.usage.total_tokens


def test_prompt_cache_key_is_a_hint_without_text(client, name):
    answer = ask(client, "Hello!", prompt_cache_key=name)
    assert (answer.hob["conversation"], answer.hob["cache_key"]) == (None, f"conv:{name}")
    again = ask(client, "Hello!", prompt_cache_key=name)
    assert again.hob["slot"] == answer.hob["slot"]
    assert computed(again) <= 1


def test_metrics_equal_the_sums_of_the_answers(hobd, client, name):
    before = hobd.metric("hob_prompt_tokens_total")
    answer = Chat(client, name).say("Hello!")
    assert hobd.metric("hob_prompt_tokens_total") == before + answer.usage.prompt_tokens
    assert hobd.metric("hob_restore_full_prefill_total") == 0
