"""Fixtures: daemons, clients and conversations."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from clients import Clients
from hobd import Hobd

# Clients that need other versions of what these need: each directory has an environment of its own.
collect_ignore = ["openai_2", "older"]

# The frameworks call home otherwise, when they are imported.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", HAYSTACK_TELEMETRY_ENABLED="False")


@pytest.fixture(scope="session")
def hobd(tmp_path_factory):
    """One daemon for all tests that do not change its state."""
    daemon = Hobd(tmp_path_factory.mktemp("hobd"))
    yield daemon
    daemon.kill()


TEMPLATE = """{# <tool_call> #}{% if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}<|im_end|>
{% endfor %}{{ '<|im_start|>assistant\n' }}"""


@pytest.fixture(scope="session")
def fake(tmp_path_factory):
    """One with the fake model, which writes what it is asked to say, and calls in Hermes' form."""
    directory = tmp_path_factory.mktemp("fake")
    template = directory / "own.jinja"
    template.write_text(TEMPLATE)
    daemon = Hobd(directory / "hobd", "--model", "fake", "--chat-template", str(template))
    yield daemon
    daemon.kill()


@pytest.fixture
def client(hobd):
    return hobd.client()


@pytest.fixture
def name(request):
    """A conversation that only this test uses."""
    return request.node.name


@pytest.fixture
def start():
    """Starts daemons for this test: `start("--slots", "2")`."""
    directory = Path(tempfile.mkdtemp(prefix="hobd-"))
    daemons = []

    def start(*flags: str, variables: dict[str, str] | None = None) -> Hobd:
        daemons.append(Hobd(directory / str(len(daemons)), *flags, variables=variables))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.kill()
    shutil.rmtree(directory)


def pytest_addoption(parser):
    parser.addoption("--clients-to", type=Path, help="write notes for docs/CLIENTS.md into this file")


def pytest_configure(config):
    config.pluginmanager.register(Clients(config))
