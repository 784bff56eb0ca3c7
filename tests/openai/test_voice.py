"""Sound as examples/mic.py sends it, from speech synthesised by espeak-ng."""

import json
import subprocess
import sys
from pathlib import Path

from hobd import PATIENCE_SECS, until

MIC = Path(__file__).parents[2] / "examples/mic.py"
SAID = "What is the capital of Peru?"


def test_speech_in_sound_is_detected_filled_and_answered(start, tmp_path):
    hobd = start()
    phrases = lambda: list((hobd.directory / "data/voice").glob("*/*.wav"))
    until(lambda: phrases(), "a phrase is at hand")
    wav = tmp_path / "said.wav"
    subprocess.run(["espeak-ng", "-w", wav, SAID], check=True)
    mic = subprocess.run(
        [sys.executable, MIC, "kitchen", "--wav", wav, "--said", SAID,
         "--address", hobd.ready["address"], "--token-file", hobd.ready["token_file"]],
        capture_output=True, text=True, timeout=PATIENCE_SECS,
    )
    assert mic.returncode == 0, mic.stderr
    events = [json.loads(line) for line in mic.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    one_each = ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
                "hob.filler", "response.done"]
    assert [kind for kind in kinds if kind in one_each] == one_each
    started, stopped, filler, done = (events[kinds.index(kind)] for kind in one_each)
    assert 0 <= started["audio_start_ms"] < 500 < stopped["audio_end_ms"]
    assert filler["text"] == "One second."
    assert done["response"]["status"] == "completed", done
    text = hobd.client().get("/conversations/kitchen", cast_to=object)["messages"][0]["content"]
    assert text == SAID
