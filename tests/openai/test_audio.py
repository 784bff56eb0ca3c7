"""Speech and transcription with the official client: espeak-ng speaks, a command writes down what it heard."""

import base64
import io
import wave

import openai
import pytest

from hobd import Hobd

SAID = "What is my locker code?"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Of a daemon whose recogniser hears how many bytes there are."""
    directory = tmp_path_factory.mktemp("audio")
    listen = directory / "listen.sh"
    listen.write_text("echo I heard $(wc -c) bytes.\n")
    daemon = Hobd(directory / "hobd", "--voice-recognizer", f"sh {listen}")
    yield daemon.client()
    daemon.kill()


def spoken(client, **options):
    return client.audio.speech.create(model="tts-1", voice="alloy", input=SAID, **options)


def length(sound: bytes) -> float:
    with wave.open(io.BytesIO(sound)) as wav:
        return wav.getnframes() / wav.getframerate()


@pytest.fixture(scope="module")
def sound(client) -> bytes:
    return spoken(client, response_format="wav").content


def test_a_text_is_spoken(client, sound):
    assert 0.5 < length(sound) < 5
    assert spoken(client).content == sound
    pcm = spoken(client, response_format="pcm").content
    assert len(pcm) / 2 / 24_000 == pytest.approx(length(sound), abs=0.05)


def test_sound_is_streamed_as_bytes_and_as_events(client, sound):
    speech = client.audio.speech.with_streaming_response
    with speech.create(model="tts-1", voice="alloy", input=SAID, response_format="wav") as response:
        assert b"".join(response.iter_bytes()) == sound
    events = client.post(
        "/audio/speech",
        body={"model": "tts-1", "voice": "alloy", "input": SAID, "stream_format": "sse"},
        cast_to=object,
        stream=True,
        stream_cls=openai.Stream[object],
    )
    *deltas, done = events
    assert done["type"] == "speech.audio.done"
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == sound


def heard(client, sound, **options):
    return client.audio.transcriptions.create(model="whisper-1", file=("said.wav", sound), **options)


def test_sound_is_transcribed_in_each_form(client, sound):
    text = heard(client, sound).text
    assert text.startswith("I heard ")
    assert heard(client, sound, response_format="text") == f"{text}\n"
    verbose = heard(client, sound, response_format="verbose_json", language="en")
    assert (verbose.text, verbose.language) == (text, "en")
    assert float(verbose.duration) == pytest.approx(length(sound), abs=0.01)
    assert [segment.text for segment in verbose.segments] == [text]
    assert text in heard(client, sound, response_format="srt")
    assert heard(client, sound, response_format="vtt").startswith("WEBVTT")


def test_a_transcript_is_streamed(client, sound):
    text = heard(client, sound).text
    events = list(heard(client, sound, stream=True))
    assert [event.type for event in events] == ["transcript.text.delta", "transcript.text.done"]
    assert events[0].delta == events[1].text == text


def test_what_is_not_there_is_refused_by_name(client, sound):
    for refused, param in [
        (lambda: spoken(client, response_format="mp3"), "response_format"),
        (lambda: heard(client, sound, response_format="diarized_json"), "response_format"),
        (lambda: heard(client, sound, response_format="verbose_json", timestamp_granularities=["word"]),
         "timestamp_granularities"),
    ]:
        with pytest.raises(openai.BadRequestError) as error:
            refused()
        assert error.value.param == param
    with pytest.raises(openai.BadRequestError) as error:
        heard(client, b"no sound")
    assert error.value.code == "invalid_audio"
