#!/usr/bin/env python3
"""Makes terminal.svg: a real session of hob in a terminal, with a kill -9 in its middle.

Needs tmux, the built programs (cargo build --release -p hob-daemon -p hob-cli), the real model (cargo
run --release -p hob-fetch -- --to target/models) and the Python package rich. Run it from anywhere:

    python3 docs/images/make-terminal.py
"""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT = 80, 28
THEME = TerminalTheme(
    (24, 24, 27), (212, 212, 216),
    [(24, 24, 27), (248, 113, 113), (134, 239, 172), (253, 224, 71),
     (147, 197, 253), (216, 180, 254), (103, 232, 249), (212, 212, 216)],
)


class Terminal:
    """A shell in tmux, with a server of its own and nothing of this machine in its prompt."""

    def __init__(self, home: Path):
        self.tmux = ["tmux", "-S", str(home / "tmux"), "-f", "/dev/null"]
        programs = ROOT / "target" / "release"
        shell = f"cd {home} && env -i HOME={home} TERM=xterm-256color HOB_LISTEN=127.0.0.1:0 " \
                f"PATH={programs}:/usr/bin:/bin PS1='$ ' HISTFILE= bash --norc"
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        self.run("new-session", "-d", "-s", "hob", *size, shell)
        self.wait(r"^\$ $")

    def run(self, *words: str) -> str:
        done = subprocess.run([*self.tmux, *words], check=True, capture_output=True, text=True)
        return done.stdout

    def screen(self, *options: str) -> str:
        return self.run("capture-pane", "-p", "-t", "hob", *options)

    def type(self, line: str, until: str):
        """Types a line and waits until the end of the screen looks like `until`."""
        self.run("send-keys", "-t", "hob", "-l", line)
        self.run("send-keys", "-t", "hob", "Enter")
        time.sleep(0.3)
        self.wait(until)

    def wait(self, until: str):
        for _ in range(2400):
            if re.search(until, self.screen("-N").rstrip("\n"), re.MULTILINE):
                return
            time.sleep(0.05)
        raise SystemExit(f"waited in vain for {until!r}; the screen:\n{self.screen()}")


def session(home: Path) -> str:
    """The screen after the session, with its colours."""
    terminal = Terminal(home)
    models = home / ".local/share/hob/models"
    models.mkdir(parents=True)
    for model in (ROOT / "target/models").glob("*.gguf"):
        (models / model.name).symlink_to(model)
    try:
        start(terminal, home)
        terminal.type("hob chat --temperature 0", r"^> *\Z")
        terminal.type("Please remember: the locker code is 48213.", r"read\n\n> *\Z")
        terminal.type("What is the locker code?", r"remembered.*\n\n> *\Z")
        terminal.type("/quit", r"^\$ *\Z")
        time.sleep(1)  # Saving happens behind the answer.
        terminal.type("kill -9 %1; wait", r"Killed.*\n\$ *\Z")
        start(terminal, home)
        terminal.type("hob chat --temperature 0 --last", r"Ctrl-D ends\n\n> *\Z")
        terminal.type("What is the locker code?", r"remembered.*\n\n> *\Z")
        return terminal.screen("-e")
    finally:
        terminal.run("kill-server")
        running = home / ".local/share/hob/hobd.json"
        if running.exists():
            stop(json.loads(running.read_text())["pid"])


def start(terminal: Terminal, home: Path):
    (home / ".local/share/hob/hobd.json").unlink(missing_ok=True)
    terminal.type("hobd --model smollm2 2>hobd.log &", r"^\$ *\Z")
    for _ in range(200):
        if (home / ".local/share/hob/hobd.json").exists():
            return
        time.sleep(0.05)
    raise SystemExit(f"hobd does not start:\n{(home / 'hobd.log').read_text()}")


def stop(pid: int):
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # It went with its terminal.
    time.sleep(1)  # It saves what is worth keeping.


def draw(screen: str) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True,
                      color_system="truecolor")
    for line in AnsiDecoder().decode(screen.rstrip("\n")):
        console.print(line, overflow="crop", no_wrap=True, highlight=False)
    svg = console.export_svg(title="hob", theme=THEME)
    # A picture fetches nothing: fonts are those of whoever looks at it.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    fonts = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    return svg.replace("Fira Code, monospace", fonts)


def main():
    home = Path(tempfile.mkdtemp(prefix="hob-"))
    try:
        screen = session(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if str(home) in screen or str(ROOT) in screen:
        raise SystemExit("a path of this machine is on the screen")
    picture = Path(__file__).with_name("terminal.svg")
    picture.write_text(draw(screen))
    print(screen)


if __name__ == "__main__":
    main()
