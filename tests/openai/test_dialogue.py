"""A spoken dialogue with real parts: espeak-ng speaks, pocketsphinx listens, hobd answers.

`examples/recognize.py` and `examples/dialogue.py` run as a user runs them.
"""

import array
import json
import subprocess
import sys
import wave
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from hobd import PATIENCE_SECS, until
from words import Chat, computed

EXAMPLES = Path(__file__).parents[2] / "examples"
TOLD = "my locker code is four eight two"
ASKED = "what is my locker code"
GRAMMAR = """#JSGF V1.0;
grammar questions;
public <sentence> = my locker code is <digit> <digit> <digit> | what is my locker code;
<digit> = one | two | three | four | five | six | seven | eight | nine | zero;
"""


@pytest.fixture
def listening(start, tmp_path):
    """A daemon that understands the sentences of the grammar."""
    grammar = tmp_path / "questions.jsgf"
    grammar.write_text(GRAMMAR)
    recognizer = f"{sys.executable} {EXAMPLES / 'recognize.py'} --grammar {grammar}"
    return start("--voice-recognizer-stream", recognizer)


def test_words_posted_in_pieces_are_computed_before_the_speaker_ends(listening, tmp_path):
    hobd = listening
    chat = Chat(hobd.client(), "kitchen")
    chat.say(TOLD, max_tokens=24)
    wav = tmp_path / "asked.wav"
    # The accent of the model of pocketsphinx.
    subprocess.run(["espeak-ng", "-v", "en-us", "-s", "140", "-w", wav, ASKED], check=True)
    with wave.open(str(wav)) as sound:
        rate, pcm = sound.getframerate(), sound.readframes(sound.getnframes())
    headers = {"authorization": f"Bearer {hobd.token}", "content-type": "audio/pcm"}
    utterance = {}

    def hear(piece: bytes, **query) -> dict:
        path = f"/v1/conversations/kitchen/audio?{urlencode({**utterance, **query})}"
        with urlopen(Request(hobd.url + path, piece, headers), timeout=PATIENCE_SECS) as answer:
            return json.load(answer)

    utterance = {"utterance": hear(b"", rate=rate)["utterance"]}
    until(lambda: not hobd.busy_slots(), "the history is hot")
    ahead = hobd.metric("hob_ahead_tokens_total")
    for at in range(0, len(pcm), rate // 5):  # 100 ms
        hear(pcm[at:at + rate // 5])
    until(lambda: hear(b"")["transcript"], "a partial transcript")
    until(lambda: hobd.metric("hob_ahead_tokens_total") > ahead, "words are computed")
    ended = hear(b"", end="true")
    assert (ended["transcript"], ended["final"]) == (ASKED, True)
    words = hobd.client(base_url=hobd.url).post("/tokenize", body={"content": ASKED}, cast_to=object)["tokens"]
    until(lambda: hobd.metric("hob_ahead_tokens_total") - ahead >= len(words), "all are computed")
    until(lambda: not hobd.busy_slots(), "hot")
    answer = chat.say(ASKED, max_tokens=24)
    # At most the end of the template is left.
    assert computed(answer) <= chat.new_tokens - len(words), answer.hob


def test_what_is_spoken_is_heard_remembered_and_answered_aloud(listening, tmp_path):
    hobd = listening

    def talk(said: str) -> tuple[str, array.array]:
        """Returns what `dialogue.py` prints, and the sound of the answer."""
        wav, out = tmp_path / "said.wav", tmp_path / "answer.wav"
        subprocess.run(["espeak-ng", "-w", wav, said], check=True)
        dialogue = subprocess.run(
            [sys.executable, EXAMPLES / "dialogue.py", "kitchen", "--wav", wav, "--out", out,
             "--max-tokens", "24",
             "--address", hobd.ready["address"], "--token-file", hobd.ready["token_file"]],
            capture_output=True, text=True, timeout=PATIENCE_SECS,
        )
        assert dialogue.returncode == 0, dialogue.stderr
        with wave.open(str(out)) as answer:
            return dialogue.stdout, array.array("h", answer.readframes(answer.getnframes()))

    talk(TOLD)
    hobd.until_saved()
    hobd.kill()
    hobd.start()
    printed, sound = talk(ASKED)
    stored = hobd.client().get("/conversations/kitchen", cast_to=object)["messages"]
    assert [message["content"] for message in stored[::2]] == [TOLD, ASKED]
    assert "[completed" in printed or "[incomplete" in printed, printed
    assert f"> {ASKED}" in printed
    assert len(sound) > 12_000 and max(sound) > 1_000, "half a second of sound that is not silence"
    assert hobd.metric("hob_restore_full_prefill_total") == 0
