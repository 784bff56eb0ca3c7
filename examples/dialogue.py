"""Talks with hobd: sound in, transcript, answer, sound out. Speaking interrupts the answer.

pip install websockets sounddevice pocketsphinx
hobd ... --voice-recognizer-stream "python3 examples/recognize.py"     # speaks with espeak-ng
python3 examples/dialogue.py kitchen
python3 examples/dialogue.py kitchen --wav question.wav --out answer.wav     # needs no sound device
"""
import argparse, asyncio, base64, json, pathlib, queue, wave
import websockets

from mic import file, microphone

OUTPUT_RATE = 24_000  # samples per second of an answer


class Player:
    """Plays 16-bit PCM, and falls silent at once."""

    def __init__(self):
        import sounddevice

        self.pieces, self.rest = queue.SimpleQueue(), b""
        self.stream = sounddevice.RawOutputStream(OUTPUT_RATE, channels=1, dtype="int16", callback=self.fill)
        self.stream.start()

    def fill(self, out, *_):
        while len(self.rest) < len(out) and not self.pieces.empty():
            self.rest += self.pieces.get()
        piece, self.rest = self.rest[: len(out)], self.rest[len(out) :]
        out[:] = piece.ljust(len(out), b"\0")

    def play(self, pcm):
        self.pieces.put(pcm)

    def stop(self):
        self.pieces, self.rest = queue.SimpleQueue(), b""


class Recorder:
    """Writes 16-bit PCM to a WAV."""

    def __init__(self, path):
        self.wav = wave.open(path, "wb")
        self.wav.setparams((1, 2, OUTPUT_RATE, 0, "NONE", None))

    def play(self, pcm):
        self.wav.writeframes(pcm)

    def stop(self):
        pass


async def answers(hob, voice, turns):
    """Prints and plays the events of `turns` answers; of all of them without a number."""
    heard = "conversation.item.input_audio_transcription"
    while turns is None or turns > 0:
        event = json.loads(await hob.recv())
        kind = event["type"]
        if kind == "input_audio_buffer.speech_started":
            voice.stop()
        elif kind in (f"{heard}.delta", f"{heard}.completed"):
            print(f"\r\033[K> {event['transcript']}", end="", flush=True)
        elif kind == "response.created":
            print()
        elif kind == "response.output_audio_transcript.delta":
            print(event["delta"], end="", flush=True)
        elif kind == "response.output_audio.delta":
            voice.play(base64.b64decode(event["delta"]))
        elif kind == "response.done":
            tokens = event.get("hob", {}).get("tokens")
            print(f"\n[{event['response']['status']}, prompt tokens: {tokens}]", flush=True)
            turns = turns and turns - 1
        elif kind == "error":
            raise SystemExit(event["error"]["message"])


async def main():
    parser = argparse.ArgumentParser(description="Talks with hobd.")
    parser.add_argument("conversation")
    parser.add_argument("--wav", action="append", help="a turn: a 16-bit WAV, not the microphone; may be repeated")
    parser.add_argument("--out", help="writes the answers to this WAV and plays nothing")
    parser.add_argument("--max-tokens", type=int, help="of an answer")
    parser.add_argument("--address", default="127.0.0.1:8642")
    parser.add_argument("--token-file", default="~/.local/share/hob/token")
    args = parser.parse_args()
    token = pathlib.Path(args.token_file).expanduser().read_text().strip()
    url, headers = f"ws://{args.address}/v1/realtime/events", {"Authorization": f"Bearer {token}"}
    voice = Recorder(args.out) if args.out else Player()
    async with websockets.connect(url, additional_headers=headers) as hob:
        session = {"conversation": args.conversation, "output_modalities": ["audio"]}
        if args.max_tokens:
            session["max_tokens"] = args.max_tokens
        await hob.send(json.dumps({"type": "session.update", "session": session}))
        if not args.wav:
            listening = asyncio.create_task(answers(hob, voice, None))
            async for frame in microphone():
                await hob.send(frame)
            await listening
        for path in args.wav or []:
            answered = asyncio.create_task(answers(hob, voice, 1))
            async for frame in file(path):
                await hob.send(frame)
            await answered


asyncio.run(main())
