"""A real hobd process on a free port, and the official client that talks to it.

- A process never outlives the test that started it.
- All its files are in one directory, so another process can continue from there.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from openai import AsyncOpenAI, OpenAI

BINARY = Path(os.environ.get("HOBD", Path(__file__).parents[2] / "target/release/hobd"))
PATIENCE_SECS = 60  # Tests run on busy machines too.


class Hobd:
    """A daemon with the bundled model. `flags` are added to its command line, `variables` to its environment."""

    def __init__(self, directory: Path, *flags: str, variables: dict[str, str] | None = None):
        self.directory = directory
        self.flags = flags
        self.variables = variables or {}
        self._process: subprocess.Popen | None = None
        self.start()

    def start(self) -> None:
        """Starts it, and waits until requests are served."""
        self.directory.mkdir(parents=True, exist_ok=True)
        ready = self.directory / "ready.json"
        ready.unlink(missing_ok=True)
        # The developer's own settings and profiles must not affect the tests.
        environment = {"HOME": str(self.directory), "PATH": os.environ["PATH"], **self.variables}
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    BINARY.resolve(),
                    *("--listen", "127.0.0.1:0"),
                    *("--data-dir", self.directory / "data"),
                    *("--slots-dir", self.slots_dir),
                    *("--ready-file", ready),
                    *("--threads", "1"),  # A small model beside other processes.
                    *self.flags,
                ],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        until(lambda: ready.exists() or self._process.poll() is not None, "hobd serves requests")
        assert self._process.poll() is None, f"hobd ended at once:\n{self.log()}"
        self.ready = json.loads(ready.read_text())
        self._watcher = self.client(base_url=self.url)

    def kill(self) -> None:
        """kill -9."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """Sends SIGTERM, as a shell or a service manager does. Returns the exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_SECS)

    @property
    def slots_dir(self) -> Path:
        return self.directory / "slots"

    @property
    def log_file(self) -> Path:
        return self.directory / "log"

    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def url(self) -> str:
        return f"http://{self.ready['address']}"

    @property
    def token(self) -> str:
        return Path(self.ready["token_file"]).read_text().strip()

    def client(self, **options) -> OpenAI:
        return OpenAI(**self._options(options))

    def async_client(self, **options) -> AsyncOpenAI:
        return AsyncOpenAI(**self._options(options))

    def _options(self, options: dict) -> dict:
        defaults = {"api_key": self.token, "max_retries": 0, "timeout": PATIENCE_SECS}
        return {"base_url": f"{self.url}/v1", **defaults, **options}

    def status(self) -> dict:
        """`GET /v1/status`."""
        return self._watcher.get("/v1/status", cast_to=object)

    def busy_slots(self) -> list[dict]:
        return busy(self.status())

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        page = self._watcher.get("/metrics", cast_to=str)
        lines = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        return sum(float(value) for key, value in lines if key.split("{")[0] == name)

    def until_saved(self) -> None:
        """Waits until the writer is idle: all turns so far survive `kill -9`."""
        readings = []

        def quiet() -> bool:
            status = self.status()
            written = status["counters"]["written_bytes"]
            readings.append((written, [slot["state"] for slot in status["slots"]]))
            last = readings[-4:]
            return len(last) == 4 and all(r == last[0] for r in last) and not busy(status)

        until(quiet, "everything is written", every_secs=0.06)
        # The disk may pause between two files: this request runs after all queued writes.
        self._watcher.post("/v1/slots/gc", body={"dry_run": True}, cast_to=object)
        until(quiet, "nothing more is written", every_secs=0.06)


def busy(status: dict) -> list[dict]:
    """The slots with a running turn."""
    return [slot for slot in status["slots"] if slot["state"] not in ("free", "idle")]


def until(done, what: str, every_secs: float = 0.02) -> None:
    """Waits for `done`, for PATIENCE_SECS at most."""
    end = time.monotonic() + PATIENCE_SECS
    while not done():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(every_secs)
