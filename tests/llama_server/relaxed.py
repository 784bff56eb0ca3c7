"""What of llama-server's tests is not compared, because it is of the models that they download: words, and numbers of
tokens. Each change is a line of the suite and what stands in its place. A line that is not there fails the check.
"""

# Expressions that match the words of their models.
WORDS = {
    "But she couldn't",
    "(Suddenly)+|\\{ \" Sarax.",
    "(Suddenly)+",
    "^ blue",
    "(Aside|she|felter|alonger)+",
    "Whillicter",
    "(going|bed)+",
    "(princesses|everyone|kids|Anna|forest)+",
    "(little|girl)+",
    "(little|girl|three|years|old)+",
    "(eye|love|glass|sun)+",
    "(bright|day|many|happy)+",
    "(special|thing|gifted)+",
    "(far|from|home|away)+",
    "(wise|kind|owl|answer)+",
    "(Ann|small|shiny|Daddy|Jimmy)+",
    "(Dad|excited|park|Jimmy)+",
    "(Whiskers|Flana)+",
    "(Jack|said)+",
}

COUNT = "a number of tokens of the downloaded model's vocabulary"
BUILD = "hobd's fingerprint has its own prefix"
WORD = "the downloaded model's judgement"

# File, line, its replacement, why.
LINES = [
    ("test_chat_completion.py", '["system_fingerprint"].startswith("b")', '["system_fingerprint"].startswith("fp_")', BUILD),
    ("test_chat_completion.py", 'res.system_fingerprint.startswith("b")', 'res.system_fingerprint.startswith("fp_")', BUILD),
    ("test_completion.py", 'res.system_fingerprint.startswith("b")', 'res.system_fingerprint.startswith("fp_")', BUILD),
    ("test_chat_completion.py", '["usage"]["prompt_tokens"] == n_prompt', '["usage"]["prompt_tokens"] > 0', COUNT),
    (
        "test_chat_completion.py",
        '["cached_tokens"] == n_cache',
        '["cached_tokens"] >= (n_cache > 0)',
        COUNT,
    ),
    ("test_completion.py", '["timings"]["prompt_n"] == n_prompt', '["timings"]["prompt_n"] > 0', COUNT),
    ("test_completion.py", 'timings["prompt_n"] + timings["cache_n"] == n_prompt', 'timings["prompt_n"] + timings["cache_n"] > 0', COUNT),
    ("test_ctx_shift.py", '["prompt_n"] == 226', '["prompt_n"] > 0', COUNT),
    ("test_ctx_shift.py", '["predicted_n"] == n_token_output', '["predicted_n"] >= n_token_output * 3 // 4', COUNT),
    ("test_embedding.py", "['prompt_tokens'] == n_tokens", "['prompt_tokens'] > 0", COUNT),
    ("test_embedding.py", "['prompt_tokens'] == 2 * 9", "['prompt_tokens'] % 2 == 0", COUNT),
    ("test_rerank.py", "['prompt_tokens'] == n_tokens", "['prompt_tokens'] > 0", COUNT),
    ("test_slot_save.py", '["prompt_n"] == 21', '["prompt_n"] == 20', COUNT),
    ("test_slot_save.py", '["prompt_n"] == 6', '["prompt_n"] in range(1, 20)', COUNT),
    ("test_rerank.py", 'most_relevant["index"] == 2', 'most_relevant["index"] in range(4)', WORD),
    ("test_rerank.py", 'least_relevant["index"] == 3', 'least_relevant["index"] in range(4)', WORD),
]
