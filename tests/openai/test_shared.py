"""Daemons that share saved conversations in S3-compatible storage: SeaweedFS, which checks every signature."""

import hashlib
import hmac
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest
from openai import NotFoundError

from hobd import until
from words import Chat, computed, places

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "hob", "AWS_SECRET_ACCESS_KEY": "secret"}
WRONG = {**CREDENTIALS, "AWS_SECRET_ACCESS_KEY": "wrong"}
TOLD = ["My locker code is 48213.", "My favorite color is teal.", "What is 3 plus 4?"]
LONG = "The harbour was quiet, and the boats lay side by side until the evening tide came in. " * 12


class Server:
    """SeaweedFS with a bucket `hob`, on this machine alone. `CREDENTIALS` are its only key."""

    # A process of these four; each has a port for HTTP and one for gRPC.
    PARTS = ["master", "volume", "filer", "s3"]

    def __init__(self):
        self._directory = Path(tempfile.mkdtemp(prefix="weed-"))
        self._ports = free_ports(2 * len(self.PARTS))
        flags = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-master.electionTimeout=1s"]
        flags += ["-s3", f"-dir={self._directory}", "-volume.max=0", "-master.volumeSizeLimitMB=64"]
        # Daemons find their bucket, or fail.
        flags += ["-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        for part, http, grpc in zip(self.PARTS, self._ports[::2], self._ports[1::2]):
            flags += [f"-{part}.port={http}", f"-{part}.port.grpc={grpc}"]
        self.address = ("127.0.0.1", self._ports[-2])
        environment = {"HOME": str(self._directory), "PATH": os.environ["PATH"], **CREDENTIALS}
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).with_name("weed"), f"-logdir={self._directory}", "server", *flags],
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def until_ready(self) -> None:
        # The first object waits for the volumes that hold it; a daemon might give up sooner.
        for path, body in [("/hob", ""), ("/hob/ready", "written")]:
            # 409: the bucket is there since an earlier request that got no answer.
            until(lambda: self._is_running() and self.put(path, body) in (200, 409), f"{path} is written", 0.2)

    def put(self, path: str, body: str = "", credentials: dict[str, str] = CREDENTIALS) -> int | None:
        """The status of a signed request; `None` while the server does not answer."""
        connection = HTTPConnection(*self.address, timeout=10)
        try:
            connection.request("PUT", path, body, signed_put(path, self.address, body, credentials))
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def stop(self) -> None:
        # Asked to stop, it waits 15 s for its own clients.
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory)
        for port in self._ports:
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink()

    def _is_running(self) -> bool:
        assert self._process.poll() is None, f"weed ended at once:\n{self._log_file.read_text()}"
        return True

    @property
    def _log_file(self) -> Path:
        return self._directory / "log"


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        doors = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [door.getsockname()[1] for door in doors]


def signed_put(path: str, address: tuple[str, int], body: str, credentials: dict[str, str]) -> dict[str, str]:
    """The headers of a request, with version 4 of AWS's signatures."""
    key_id, secret = credentials.values()
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    headers = {"host": "%s:%d" % address, "x-amz-content-sha256": sha256(body), "x-amz-date": now}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = "\n".join(["PUT", path, "", lines, names, sha256(body)])
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, sha256(request)])
    key = f"AWS4{secret}".encode()
    for part in [*scope.split("/"), to_sign]:
        key = hmac.digest(key, part.encode(), "sha256")
    parts = [f"Credential={key_id}/{scope}", f"SignedHeaders={names}", f"Signature={key.hex()}"]
    return {**headers, "authorization": f"AWS4-HMAC-SHA256 {', '.join(parts)}"}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Storage:
    """A place in the server's bucket, and the address at which daemons see it."""

    numbers = itertools.count()

    def __init__(self, server: Server):
        self.server = server
        self.place = f"s3://hob/kitchen-{next(self.numbers)}"

    def flags(self, address: tuple[str, int] | None = None) -> list[str]:
        host, port = address or self.server.address
        return ["--shared", self.place, "--shared-endpoint", f"http://{host}:{port}"]


def slow(address: tuple[str, int], delay_secs: float) -> tuple[str, int]:
    """An address that passes everything to `address`, each piece of a request after a pause."""
    door = socket.create_server(("127.0.0.1", 0))

    def copy(source: socket.socket, to: socket.socket, pause: float) -> None:
        try:
            while piece := source.recv(1 << 16):
                time.sleep(pause)
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # One side has gone.

    def serve() -> None:
        while True:
            client, _ = door.accept()
            server = socket.create_connection(address)
            for pair in [(client, server, delay_secs), (server, client, 0)]:
                threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return door.getsockname()


@pytest.fixture(scope="module")
def server():
    server = Server()
    try:
        server.until_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture
def storage(server):
    """A place that only this test uses."""
    return Storage(server)


def published(hobd, times: int) -> None:
    until(lambda: hobd.metric("hob_shared_published_total") >= times, "it is published", 0.1)


def test_after_kill_9_another_daemon_goes_on_from_s3_and_computes_its_new_tokens_only(start, storage):
    first = start(*storage.flags(), variables=CREDENTIALS)
    second = start(*storage.flags(), variables=CREDENTIALS)
    chat = Chat(first.client(), "chat")
    for turn, sentence in enumerate(TOLD):
        chat.say(sentence)
        published(first, turn + 1)
    first.kill()

    chat.client = second.client()
    answer = chat.say("What is my locker code?")
    assert "48213" in answer.choices[0].message.content
    assert computed(answer) == chat.new_tokens
    assert places(answer)["disk"] == answer.usage.prompt_tokens - chat.new_tokens
    assert second.metric("hob_shared_failures_total") == 0
    published(second, 1)


def test_kv_is_computed_where_the_storage_is_slower(start, storage):
    first = start(*storage.flags(), variables=CREDENTIALS)
    chat = Chat(first.client(), "chat")
    chat.say("My locker code is 48213.")
    published(first, 1)

    # Reading a few dozen tokens takes less than one look into this storage.
    second = start(*storage.flags(slow(storage.server.address, 0.4)), variables=CREDENTIALS)
    Chat(second.client(), "other").say(LONG)  # Its prefill speed is known now.
    chat.client = second.client()
    answer = chat.say("What is my locker code?")
    assert "48213" in answer.choices[0].message.content
    assert places(answer)["disk"] == 0
    assert "computing is quicker" in second.log()
    assert second.metric("hob_shared_read_bytes_total") > 0  # The text, and no object.


def test_a_wrong_secret_key_is_reported_once_with_the_place_and_fails_no_turn(start, storage):
    assert storage.server.put("/hob/forged", "written", WRONG) == 403
    hobd = start(*storage.flags(), variables=WRONG)
    chat = Chat(hobd.client(), "chat")
    for sentence in TOLD:
        chat.say(sentence)
    assert "48213" in chat.say("What is my locker code?").choices[0].message.content
    until(lambda: hobd.metric("hob_shared_failures_total") >= 3, "it was tried again", 0.1)
    reports = [line for line in hobd.log().splitlines() if "the shared tier fails" in line]
    assert len(reports) == 1 and storage.place in reports[0] and "403" in reports[0], hobd.log()
    assert hobd.metric("hob_shared_published_total") == 0


def test_a_deleted_conversation_leaves_the_storage(start, storage):
    first, second = (start(*storage.flags(), variables=CREDENTIALS) for _ in range(2))
    Chat(first.client(), "chat").say("My locker code is 48213.")
    published(first, 1)
    first.client().delete("/conversations/chat", cast_to=object)
    assert first.metric("hob_shared_failures_total") == 0
    with pytest.raises(NotFoundError):
        second.client().get("/conversations/chat", cast_to=object)
    assert second.metric("hob_shared_failures_total") == 0


def test_without_credentials_hobd_says_what_to_set(start, storage):
    with pytest.raises(AssertionError, match="AWS_ACCESS_KEY_ID"):
        start(*storage.flags())
