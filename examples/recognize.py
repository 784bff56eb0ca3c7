"""A streaming recogniser for hobd: 16 kHz mono PCM in, a line whenever the transcript changes.

pip install pocketsphinx
voice_recognizer_stream = "python3 examples/recognize.py"     # in hob.toml

The wheel of pocketsphinx contains an English model. --grammar FILE limits what it understands to a
JSGF grammar, which a small model needs in order to be reliable.
"""
import argparse, sys
from pocketsphinx import Decoder

parser = argparse.ArgumentParser(description="Transcribes sound while it arrives.")
parser.add_argument("--grammar", help="a JSGF grammar of the sentences to understand")
args = parser.parse_args()

# The search for the best path may end inside a sentence of a grammar.
model = {"jsgf": args.grammar, "bestpath": False} if args.grammar else {}
decoder = Decoder(samprate=16_000, loglevel="FATAL", **model)
decoder.start_utt()
last = ""


def tell():
    global last
    found = decoder.hyp()
    text = found.hypstr if found else ""
    if text != last:
        last = text
        print(text, flush=True)


while sound := sys.stdin.buffer.read(3_200):  # 100 ms
    decoder.process_raw(sound)
    tell()
decoder.end_utt()
tell()
