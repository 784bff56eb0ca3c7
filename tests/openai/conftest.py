"""Fixtures: daemons, clients and conversations."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from clients import Clients
from hobd import Hobd

# The frameworks call home otherwise, when they are imported.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", HAYSTACK_TELEMETRY_ENABLED="False")


@pytest.fixture(scope="session")
def hobd(tmp_path_factory):
    """One daemon for all tests that do not change its state."""
    daemon = Hobd(tmp_path_factory.mktemp("hobd"))
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
    parser.addoption("--write-clients", action="store_true", help="write docs/CLIENTS.md")


def pytest_configure(config):
    config.pluginmanager.register(Clients(config))
