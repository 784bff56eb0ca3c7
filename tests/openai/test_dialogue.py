"""A spoken dialogue with real parts: espeak-ng speaks, pocketsphinx listens, hobd answers.

`examples/recognize.py` and `examples/dialogue.py` run as a user runs them.
"""

import array
import subprocess
import sys
import wave
from pathlib import Path

from hobd import PATIENCE_SECS

EXAMPLES = Path(__file__).parents[2] / "examples"
TOLD = "my locker code is four eight two"
ASKED = "what is my locker code"
GRAMMAR = """#JSGF V1.0;
grammar questions;
public <sentence> = my locker code is <digit> <digit> <digit> | what is my locker code;
<digit> = one | two | three | four | five | six | seven | eight | nine | zero;
"""


def test_what_is_spoken_is_heard_remembered_and_answered_aloud(start, tmp_path):
    grammar = tmp_path / "questions.jsgf"
    grammar.write_text(GRAMMAR)
    recognizer = f"{sys.executable} {EXAMPLES / 'recognize.py'} --grammar {grammar}"
    hobd = start("--voice-recognizer-stream", recognizer)

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
