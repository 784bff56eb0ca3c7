"""Adds general.sampling.temp to a GGUF file: sampling.py IN.gguf OUT.gguf TEMPERATURE. Tensors stay as they are, byte for byte."""
import struct, sys
KEY = "general.sampling.temp"; FLOAT32 = 6; STRING = 8; ARRAY = 9
BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
class Cursor:
    def __init__(self, data, at): self.data, self.at = data, at
    def number(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at); self.at += struct.calcsize("<" + form); return value
    def text(self):
        n = self.number("Q"); self.at += n; return self.data[self.at - n:self.at].decode()
    def skip(self, kind):
        if kind == STRING: self.text()
        elif kind == ARRAY:
            inner, n = self.number("I"), self.number("Q")
            for _ in range(n): self.skip(inner)
        else: self.at += BYTES[kind]
def padded(n, to): return (n + to - 1) // to * to
def add(data, temperature):
    """The entry goes behind general.name, where togguf.py writes it."""
    c = Cursor(data, 8); tensors, entries = c.number("Q"), c.number("Q"); place, align = c.at, 32
    for _ in range(entries):
        key = c.text(); kind = c.number("I")
        assert key != KEY, f"the file has {KEY} already"
        if key == "general.alignment": align = struct.unpack_from("<I", data, c.at)[0]
        c.skip(kind)
        if key == "general.name": place = c.at
    for _ in range(tensors):
        c.text(); dimensions = c.number("I"); c.at += 8 * dimensions + 4 + 8  # sizes, type, offset within the tensors' bytes
    entry = struct.pack("<Q", len(KEY)) + KEY.encode() + struct.pack("<If", FLOAT32, temperature)
    header = data[:16] + struct.pack("<Q", entries + 1) + data[24:place] + entry + data[place:c.at]
    return header.ljust(padded(len(header), align), b"\0") + data[padded(c.at, align):]
if __name__ == "__main__":
    old = open(sys.argv[1], "rb").read(); new = add(old, float(sys.argv[3])); open(sys.argv[2], "wb").write(new)
