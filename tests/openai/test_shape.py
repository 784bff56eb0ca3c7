"""Sampling parameters: n, seed, length, stop, logprobs, penalties."""

import math

import pytest

from words import ask, text

JOKE = "Tell me a joke."


def token_ids(hobd, content: str) -> list[int]:
    client = hobd.client(base_url=hobd.url)
    return client.post("/tokenize", cast_to=object, body={"content": content})["tokens"]


def test_several_answers_are_numbered_and_counted(client):
    one, three = ask(client, JOKE), ask(client, JOKE, n=3)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert {choice.message.content for choice in three.choices} == {text(one)}
    assert three.usage.prompt_tokens == one.usage.prompt_tokens
    assert three.usage.completion_tokens == 3 * one.usage.completion_tokens


def test_equal_seeds_repeat_an_answer_and_others_differ(client):
    def sample(seed: int) -> str:
        return text(ask(client, JOKE, temperature=1.8, seed=seed, max_tokens=24))

    assert sample(7) == sample(7)
    assert len({sample(seed) for seed in range(6)}) > 1


def test_several_answers_of_one_seed_differ(client):
    answer = ask(client, JOKE, n=4, temperature=1.8, seed=7, max_tokens=24)
    assert len({choice.message.content for choice in answer.choices}) > 1


def test_sampling_from_one_token_is_greedy(client):
    greedy = text(ask(client, JOKE))
    assert text(ask(client, JOKE, temperature=2, seed=1, extra_body={"top_k": 1})) == greedy
    assert text(ask(client, JOKE, temperature=2, seed=1, top_p=0)) == greedy
    assert text(ask(client, JOKE, temperature=1, seed=1, extra_body={"min_p": 1})) == greedy


@pytest.mark.parametrize("stop", [" tomato", ["zebra", " tomato"], " tom", "the tomato turn"])
def test_an_answer_ends_before_a_stop_text(client, stop):
    whole = "Why did the tomato turn red? It saw the salad dressing."
    first = stop if isinstance(stop, str) else stop[-1]
    answer = ask(client, JOKE, stop=stop)
    assert text(answer) == whole[: whole.index(first)]
    assert answer.choices[0].finish_reason == "stop"
    chunks = list(ask(client, JOKE, stop=stop, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text(answer)


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_an_answer_ends_at_max_tokens(client, limit):
    whole = ask(client, JOKE)
    answer = ask(client, JOKE, **{limit: 5})
    assert answer.usage.completion_tokens == 5
    assert answer.choices[0].finish_reason == "length"
    assert text(whole).startswith(text(answer))


def test_max_tokens_of_zero_only_computes_the_prompt(hobd, client, name):
    words = "My locker code is 48213. " * 8
    options = {"extra_body": {"conversation": name}}
    answer = ask(client, words, max_tokens=0, **options)
    assert (text(answer), answer.usage.completion_tokens) == ("", 0)
    assert answer.choices[0].finish_reason == "length"
    assert ask(client, words, **options).hob["tokens"]["computed"] <= 1


def test_each_token_has_its_logprob(client):
    answer = ask(client, JOKE, logprobs=True, top_logprobs=3)
    content = answer.choices[0].logprobs.content

    assert b"".join(bytes(token.bytes) for token in content).decode() == text(answer)
    for token in content:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token  # Greedy sampling chooses the likeliest.
        likelihoods = [top.logprob for top in token.top_logprobs]
        assert likelihoods == sorted(likelihoods, reverse=True)
        assert sum(map(math.exp, likelihoods)) <= 1.0001


def test_logprobs_come_only_on_request(client):
    assert ask(client, JOKE).choices[0].logprobs is None
    bare = ask(client, JOKE, logprobs=True).choices[0].logprobs.content
    assert all(token.top_logprobs == [] for token in bare)


def test_streamed_logprobs_equal_those_of_the_whole_answer(client):
    whole = ask(client, JOKE, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    chunks = ask(client, JOKE, logprobs=True, top_logprobs=2, stream=True)
    streamed = [t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.content]
    assert [token.token for token in streamed] == [token.token for token in whole]


def test_a_bias_forbids_a_token_or_forces_it(hobd, client):
    greedy = ask(client, JOKE, logprobs=True)
    first = bytes(greedy.choices[0].logprobs.content[0].bytes).decode()
    [forbidden] = token_ids(hobd, first)
    answer = ask(client, JOKE, logit_bias={str(forbidden): -100}, max_tokens=8)
    assert not text(answer).startswith(first)

    [forced] = token_ids(hobd, "a")
    answer = ask(client, JOKE, logit_bias={str(forced): 100}, max_tokens=4)
    assert text(answer) == "aaaa"


def test_penalties_reduce_repetition(hobd, client):
    [forced] = token_ids(hobd, "a")
    options = {"logit_bias": {str(forced): 12}, "max_tokens": 24}
    circles = text(ask(client, JOKE, **options)).count("a")
    for penalty in ("presence_penalty", "frequency_penalty"):
        assert text(ask(client, JOKE, **{penalty: 2}, **options)).count("a") <= circles
    repeated = ask(client, JOKE, extra_body={"repeat_penalty": 10}, **options)
    assert text(repeated).count("a") < circles


def test_tokenize_and_detokenize_round_trip(hobd):
    client = hobd.client(base_url=hobd.url)
    for content in ["My locker code is 48213.", "Grüße, 你好 👩‍👧", "<|im_start|>user\n", ""]:
        back = {"tokens": token_ids(hobd, content)}
        assert client.post("/detokenize", cast_to=object, body=back)["content"] == content
    assert len(token_ids(hobd, "<|im_end|>")) == 1
    as_text = {"content": "<|im_end|>", "parse_special": False}
    assert len(client.post("/tokenize", cast_to=object, body=as_text)["tokens"]) > 1
