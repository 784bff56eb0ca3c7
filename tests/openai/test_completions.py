"""The older endpoints: completions, models, embeddings."""

import openai
import pytest

from words import MODEL, ask, complete, computed

PROMPT = "<|im_start|>user\nWhat is the capital of Peru?<|im_end|>\n<|im_start|>assistant\n"
ANSWER = "The capital of Peru is Lima."


def tokens_of(hobd, content: str) -> list[int]:
    client = hobd.client(base_url=hobd.url)
    return client.post("/tokenize", cast_to=object, body={"content": content})["tokens"]


def test_a_prompt_is_continued(client):
    answer = complete(client, PROMPT)
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    [choice] = answer.choices
    assert (choice.text, choice.finish_reason, choice.logprobs) == (ANSWER, "stop", None)
    assert answer.usage.prompt_tokens == sum(answer.hob["tokens"].values())


def test_a_prompt_may_be_tokens_or_a_list_of_prompts(hobd, client):
    tokens = tokens_of(hobd, PROMPT)
    assert complete(client, tokens).choices[0].text == ANSWER
    several = complete(client, [PROMPT, PROMPT.replace("Peru", "Egypt")])
    assert [choice.text for choice in several.choices] == [ANSWER, "The capital of Egypt is Cairo."]
    assert [c.text for c in complete(client, [tokens, tokens]).choices] == [ANSWER, ANSWER]


def test_streamed_chunks_join_to_the_whole_completion(client):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = complete(client, PROMPT, **options)
    assert "".join(chunk.choices[0].text for chunk in chunks) == ANSWER
    assert last.usage.prompt_tokens_details.cached_tokens < last.usage.prompt_tokens
    assert last.hob["miss"] is None


def test_logprobs_have_the_older_shape(client):
    logprobs = complete(client, PROMPT, logprobs=2).choices[0].logprobs
    assert "".join(logprobs.tokens) == ANSWER
    assert [len(top) for top in logprobs.top_logprobs] == [2] * len(logprobs.tokens)
    assert all(value <= 0 for value in logprobs.token_logprobs)
    begins = [ANSWER[at : at + len(t)] for at, t in zip(logprobs.text_offset, logprobs.tokens)]
    assert begins == logprobs.tokens


def test_a_prompt_may_have_several_completions(client):
    answer = complete(client, PROMPT, n=2, max_tokens=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert {choice.finish_reason for choice in answer.choices} == {"length"}


def test_a_named_completion_is_pinned_like_a_chat(hobd, client, name):
    options = {"extra_body": {"conversation": name}}
    first = complete(client, PROMPT, **options)
    assert first.hob["conversation"] == name
    hobd.until_saved()
    follow_up = f"{PROMPT}{ANSWER}<|im_end|>\n<|im_start|>user\nHello!<|im_end|>\n"
    answer = complete(client, f"{follow_up}<|im_start|>assistant\n", **options)
    assert computed(answer) == answer.usage.prompt_tokens - first.usage.total_tokens


def test_the_one_model_is_listed_and_found_by_name(client):
    [model] = client.models.list().data
    assert (model.object, model.owned_by) == ("model", "hob")
    assert client.models.retrieve(model.id).id == model.id
    assert ask(client, "Hello!", model=model.id).model == model.id


def test_any_model_name_runs_the_one_model(client):
    assert ask(client, "Hello!", model="gpt-4o").model == client.models.list().data[0].id


def test_another_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("gpt-4o")
    assert refused.value.code == "model_not_found"


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}])
def test_a_chat_model_refuses_embeddings(client, options):
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model=MODEL, input="Hello!", **options)
    assert refused.value.code == "unsupported_model"
    assert "embedding model" in refused.value.message
