"""The `conftest.py` of llama-server's tests: starts hobd where they start llama-server, and changes nothing else.

- Models are those of `models.py`, with as many tokens of trained context as llama-server gives a slot.
- Where a test has no key of its own, requests carry hobd's token.
- hobd has no setting for `--seed`, `--n-predict`, `--reasoning` and `--verbose`: requests that leave them open
  carry the fields of that meaning.
- Words that only the downloaded models say are not compared; `relaxed.py` lists what else is not.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest

OWN = Path(os.environ["HOB_SHIM"])
HOBD = Path(os.environ["HOBD"]).resolve()
RESULTS = Path(os.environ["HOB_RESULTS"])
sys.path.insert(0, str(OWN))
sys.modules["wget"] = types.ModuleType("wget")  # Only for downloads.

import openai
import requests

import models
import utils
from relaxed import WORDS

PATIENCE_SECS = 60
TOKEN = "a-token-for-llama-servers-tests"
RANK, CLS = 4, 2
POOLING = {"none": None, "mean": 1, "cls": 2, "last": 3, "rank": 4}
GENERATES = re.compile(r"/(completions?|infill)$")

TEMPLATES = {
    "llama3": "{%- for message in messages %}{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n'"
    " + message.content | trim + '<|eot_id|>' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}",
    "command-r": "{%- for message in messages %}{{- '<|START_OF_TURN_TOKEN|>' + {'system': '<|SYSTEM_TOKEN|>',"
    " 'user': '<|USER_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'}[message.role] + message.content | trim"
    " + '<|END_OF_TURN_TOKEN|>' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif %}",
}

_original_match = utils.match_regex
utils.match_regex = lambda regex, text: regex in WORDS or _original_match(regex, text)


def _start(self, timeout_seconds: int = PATIENCE_SECS) -> None:
    # Without them, a case passes where hobd's measured times happen to make it draft, and fails elsewhere.
    if self.spec_synth_rates:
        raise RuntimeError("hobd has no synthetic rates of acceptance")
    self.directory = Path(tempfile.mkdtemp(prefix="hobd-", dir=RESULTS.parent))
    token_file = self.directory / "token"
    token_file.write_text(self.api_key or TOKEN)
    token_file.chmod(0o600)
    ready = self.directory / "ready.json"
    command = [HOBD, "--listen", "127.0.0.1:0", "--ready-file", ready, "--threads", 1, "--token-file", token_file]
    command += ["--data-dir", self.directory / "data", "--slots-dir", self.directory / "slots"]
    command += ["--model", _model(self), "--slots", self.n_slots or 4]
    command += ["--ctx", self.n_ctx or 4096]
    if template := _template(self):
        command += ["--chat-template", template]
    if self.model_draft:
        command += ["--draft-model", _draft(self)]
    for at, _ in enumerate(self.lora_files or []):
        adapter = self.directory / f"adapter-{at}.gguf"
        models.write_adapter(adapter)
        command += ["--adapters", adapter]
    command += ["--allow-origin", self.cors_origins or "*"]
    environment = {"HOME": str(self.directory), "PATH": os.environ["PATH"]}
    with (self.directory / "log").open("wb") as log:
        self.process = subprocess.Popen(
            [str(part) for part in command], env=environment, stdin=subprocess.DEVNULL, stderr=log
        )
    utils.server_instances.add(self)
    _current[:] = [self]
    end = time.monotonic() + PATIENCE_SECS
    while not ready.exists():
        if self.process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"hobd did not start:\n{(self.directory / 'log').read_text()[-2000:]}")
        time.sleep(0.01)
    self.server_port = int(json.loads(ready.read_text())["address"].rsplit(":", 1)[1])
    self.ready = True


def _stop(self) -> None:
    utils.server_instances.discard(self)
    if self.process is not None:
        status = self.process.poll()
        self.process.kill()
        self.process.wait()
        self.process = None
        log = (self.directory / "log").read_text(errors="replace")
        shutil.rmtree(self.directory, ignore_errors=True)
        assert status is None, f"hobd ended by itself, with {status}:\n{log[-2000:]}"


def _slot_context(self) -> int:
    context = self.n_ctx or 4096
    return context if self.kv_unified else context // (self.n_slots or 4)


def _model(self) -> Path:
    source = f"{self.model_hf_repo} {self.model_hf_file}"
    path = self.directory / f"{(self.model_alias or 'model').split(',')[0]}.gguf"
    pooling = None
    if "bert" in source:
        pooling = CLS if self.pooling is None else POOLING[self.pooling]
    elif "reranker" in source:
        pooling = RANK
    models.write(
        path, _slot_context(self), pooling=pooling, fills_in="infill" in source, temperature=self.temperature
    )
    return path


def _draft(self) -> Path:
    path = self.directory / "draft.gguf"
    models.write(path, _slot_context(self))
    return path


def _template(self) -> Path | None:
    if self.chat_template_file:
        return Path(self.chat_template_file).resolve()
    if self.chat_template in (None, "chatml"):
        return None
    path = self.directory / "template.jinja"
    path.write_text(TEMPLATES.get(self.chat_template, self.chat_template))
    return path


_current: list = []
_send = requests.Session.request


def _request(session, method, url, *, headers=None, json=None, **options):
    """Adds the token, and the fields for what llama-server is started with."""
    server = _current[0] if _current else None
    if server is None or f":{server.server_port}/" not in url:
        return _send(session, method, url, headers=headers, json=json, **options)
    if server.api_key is None:
        headers = {"Authorization": f"Bearer {TOKEN}", **(headers or {})}
    if method.upper() == "POST" and isinstance(json, dict):
        json = dict(json)
        path = url.split("?")[0]
        if GENERATES.search(path):
            json.setdefault("seed", server.seed)
        if GENERATES.search(path) and server.n_predict and not {"n_predict", "max_tokens"} & json.keys():
            json["n_predict"] = server.n_predict
        if server.debug and path.endswith("/chat/completions"):
            json.setdefault("verbose", True)
        if server.reasoning:
            json.setdefault("chat_template_kwargs", {"enable_thinking": server.reasoning != "off"})
    response = _send(session, method, url, headers=headers, json=json, **options)
    # The tests look headers up by llama-server's capitals; names of headers have none (RFC 9110, 5.1).
    names = {name.title(): value for name, value in response.headers.items()}
    response.headers = requests.structures.CaseInsensitiveDict(names)
    return response


class Client(openai.OpenAI):
    def __init__(self, **options):
        if options.get("api_key") == "dummy":
            options["api_key"] = TOKEN
        super().__init__(**options)


def _no_download(url, output_file_path=None):
    return url  # Draft models and adapters are written when the server starts.


utils.ServerProcess.start = _start
utils.ServerProcess.stop = _stop
requests.Session.request = _request
openai.OpenAI = Client
utils.download_file = _no_download


@pytest.fixture(autouse=True)
def stop_servers():
    yield
    for server in set(utils.server_instances):
        server.stop()


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: needs a real model")
    config.addinivalue_line("markers", "serial: not beside others")


_results: dict[str, dict] = {}


def pytest_runtest_logreport(report):
    """In the process that collects the results of all."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return
    result = _results.setdefault(report.nodeid, {"outcome": "passed", "why": ""})
    if report.outcome != "passed":
        result["outcome"] = report.outcome
        result["why"] = str(report.longrepr)[-1500:]


def pytest_sessionfinish(session):
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        RESULTS.write_text(json.dumps(_results, indent=1))
