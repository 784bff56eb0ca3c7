"""Scores of a reranker by LiteLLM, in vLLM's form and in Jina's."""

import importlib.util
from pathlib import Path

import litellm
import pytest

from hobd import Hobd

QUERY = "Where is the mill?"
TEXTS = ["the mill is on the hill", "a river", "four", "What is it?"]


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    """A daemon with a reranker whose weights are random."""
    made = Path(__file__).parents[1] / "llama_server/models.py"
    spec = importlib.util.spec_from_file_location("made_models", made)
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    directory = tmp_path_factory.mktemp("ranker")
    models.write(directory / "ranker.gguf", 512, pooling=4)
    daemon = Hobd(directory / "hobd", "--model", str(directory / "ranker.gguf"))
    yield daemon
    daemon.kill()


def rank(hobd, provider, **options):
    asked = {"query": QUERY, "documents": TEXTS, "api_base": f"{hobd.url}/v1", "api_key": hobd.token}
    return litellm.rerank(model=f"{provider}/ranker", **asked, **options)


@pytest.fixture(scope="module")
def expected(ranker):
    """hobd's own answer."""
    return ranker.client().post("/rerank", body={"query": QUERY, "documents": TEXTS}, cast_to=object)


@pytest.mark.parametrize("provider", ["hosted_vllm", "jina_ai"])
def test_litellm_ranks_texts_and_gets_them_back(ranker, expected, provider):
    answer = rank(ranker, provider)
    scores = [result["relevance_score"] for result in answer.results]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == len(TEXTS)
    found = [{key: result[key] for key in ("index", "relevance_score")} for result in answer.results]
    assert found == expected["results"]
    assert [result["document"]["text"] for result in answer.results] == [TEXTS[result["index"]] for result in found]
    assert answer.meta["billed_units"]["total_tokens"] == expected["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("provider", ["hosted_vllm", "jina_ai"])
def test_litellm_gets_the_best_of_them_without_their_texts(ranker, expected, provider):
    answer = rank(ranker, provider, top_n=2, return_documents=False)
    assert answer.results == expected["results"][:2]


def test_litellm_says_that_a_chat_model_is_no_reranker(hobd):
    with pytest.raises(litellm.BadRequestError, match="rerank"):
        rank(hobd, "hosted_vllm")
