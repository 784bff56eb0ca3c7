"""Streams a microphone, or a WAV file, to hobd and prints its events.

pip install websockets sounddevice
python3 examples/mic.py kitchen                      # --wav FILE needs neither microphone nor sounddevice
"""
import argparse, array, asyncio, json, pathlib, wave
import websockets

RATE, FRAME = 16_000, 320  # samples per second; samples per frame of 20 ms


async def microphone():
    import sounddevice
    frames, loop = asyncio.Queue(), asyncio.get_running_loop()
    hear = lambda frame, *_: loop.call_soon_threadsafe(frames.put_nowait, bytes(frame))
    with sounddevice.RawInputStream(RATE, FRAME, channels=1, dtype="int16", callback=hear):
        while True:
            yield await frames.get()


async def file(path):
    with wave.open(path) as wav:
        step, channels = wav.getframerate() / RATE, wav.getnchannels()
        samples = array.array("h", wav.readframes(wav.getnframes()))[::channels]
    samples = [samples[int(at * step)] for at in range(int(len(samples) / step))]
    samples += [0] * RATE  # One second of silence, so that hobd detects the end of speech.
    for at in range(0, len(samples), FRAME):
        yield array.array("h", samples[at : at + FRAME]).tobytes()
        await asyncio.sleep(FRAME / RATE)


async def main():
    parser = argparse.ArgumentParser(description="Streams sound to hobd.")
    parser.add_argument("conversation")
    parser.add_argument("--wav", help="a 16-bit WAV at any rate, instead of the microphone")
    parser.add_argument("--said", help="the transcript to send when speech ends; hobd answers it")
    parser.add_argument("--address", default="127.0.0.1:8642")
    parser.add_argument("--token-file", default="~/.local/share/hob/token")
    args = parser.parse_args()
    token = pathlib.Path(args.token_file).expanduser().read_text().strip()
    url, headers = f"ws://{args.address}/v1/realtime/events", {"Authorization": f"Bearer {token}"}
    async with websockets.connect(url, additional_headers=headers) as hob:
        tell = lambda kind, **fields: hob.send(json.dumps({"type": kind, **fields}))

        async def listen():
            stopped = "input_audio_buffer.speech_stopped"
            last = "response.done" if args.said else stopped
            async for message in hob:
                event = json.loads(message)
                print(json.dumps(event | {"audio": "…"} if "audio" in event else event), flush=True)
                if event["type"] == stopped and args.said:
                    kind = "conversation.item.input_audio_transcription.completed"
                    await tell(kind, transcript=args.said)
                if event["type"] == last and args.wav:
                    return

        await tell("session.update", session={"conversation": args.conversation, "filler": True})
        listening = asyncio.create_task(listen())
        async for frame in file(args.wav) if args.wav else microphone():
            await hob.send(frame)
        await asyncio.wait_for(listening, 60)


if __name__ == "__main__":
    asyncio.run(main())
