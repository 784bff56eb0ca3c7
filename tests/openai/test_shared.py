"""Daemons that share saved conversations in S3-compatible storage: a real server of it, moto's."""

import socket
import threading
import time

import pytest
from moto.server import ThreadedMotoServer

from hobd import until
from words import Chat, computed, places

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "hob", "AWS_SECRET_ACCESS_KEY": "secret"}
LONG = "The harbour was quiet, and the boats lay side by side until the evening tide came in. " * 12


class Storage:
    """A bucket, and the address at which daemons see it."""

    def __init__(self):
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        self._server.start()
        self.address = self._server.get_host_and_port()
        put(self.address, "/hob")

    def flags(self, address: tuple[str, int] | None = None) -> list[str]:
        host, port = address or self.address
        return ["--shared", "s3://hob/kitchen", "--shared-endpoint", f"http://{host}:{port}"]

    def stop(self) -> None:
        self._server.stop()


def put(address: tuple[str, int], path: str) -> None:
    with socket.create_connection(address) as connection:
        head = f"PUT {path} HTTP/1.1\r\nHost: {address[0]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        assert b" 200 " in connection.recv(200)


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


@pytest.fixture
def storage():
    storage = Storage()
    yield storage
    storage.stop()


def published(hobd, times: int) -> None:
    until(lambda: hobd.metric("hob_shared_published_total") >= times, "it is published", 0.1)


def test_after_kill_9_another_daemon_goes_on_from_s3_and_computes_its_new_tokens_only(start, storage):
    first = start(*storage.flags(), variables=CREDENTIALS)
    second = start(*storage.flags(), variables=CREDENTIALS)
    chat = Chat(first.client(), "chat")
    told = ["My locker code is 48213.", "My favorite color is teal.", "What is 3 plus 4?"]
    for turn, sentence in enumerate(told):
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
    second = start(*storage.flags(slow(storage.address, 0.4)), variables=CREDENTIALS)
    Chat(second.client(), "other").say(LONG)  # Its prefill speed is known now.
    chat.client = second.client()
    answer = chat.say("What is my locker code?")
    assert "48213" in answer.choices[0].message.content
    assert places(answer)["disk"] == 0
    assert "computing is quicker" in second.log()
    assert second.metric("hob_shared_read_bytes_total") > 0  # The text, and no object.


def test_without_credentials_hobd_says_what_to_set(start, storage):
    with pytest.raises(AssertionError, match="AWS_ACCESS_KEY_ID"):
        start(*storage.flags())
