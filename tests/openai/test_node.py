"""Clients for JavaScript, each by a script of `node/`, whose cases are cases here too."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hobd import Hobd

HERE = Path(__file__).parent / "node"
TARGET = Path(__file__).parents[2] / "target/node"  # Has the packages.
CASE = re.compile(r'^ *test\("(.+?)"', re.MULTILINE)


def cases(script: Path) -> list[str]:
    """Those of the script, and of the one beside it that it shares with others."""
    text = script.read_text()
    shared = [HERE / name for name in re.findall(r'import { check } from "\./(.+?)"', text)]
    return [case for source in [*shared, script] for case in CASE.findall(source.read_text())]


CASES = [pytest.param(script, case, id=f"{script.stem}: {case}")
         for script in sorted(HERE.glob("*.test.mjs")) for case in cases(script)]


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """A daemon with the fake model that dials an agent, and the port where the agent listens."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    directory = tmp_path_factory.mktemp("device")
    daemon = Hobd(directory, "--model", "fake", "--device-bridge", f"http://127.0.0.1:{port}")
    yield daemon, port
    daemon.kill()


@pytest.fixture(scope="module")
def results(request, hobd):
    """Runs a script, once: the failure of each of its cases, or None."""
    for source in HERE.glob("*.mjs"):
        shutil.copy(source, TARGET)
    node = Path(sys.prefix, "bin/node")
    done: dict[str, dict[str, str | None]] = {}

    def run(script: Path) -> dict[str, str | None]:
        if script.name not in done:
            daemon, agent = hobd, {}
            if script.name == "eliza.test.mjs":
                daemon, port = request.getfixturevalue("device")
                agent = {"HOB_AGENT_PORT": str(port)}
            places = {"HOME": str(daemon.directory), "HOB_URL": daemon.url, "HOB_TOKEN": daemon.token}
            environment = {"PATH": os.environ["PATH"], **places, **agent}
            command = [node, "--test", "--test-reporter=junit", script.name]
            ran = subprocess.run(command, cwd=TARGET, env=environment, capture_output=True, text=True, timeout=120)
            found = ElementTree.fromstring(ran.stdout).iter("testcase")
            done[script.name] = {case.get("name"): case.findtext("failure") for case in found}
        return done[script.name]

    return run


@pytest.mark.parametrize("script, case", CASES)
def test_a_script_passes(results, script, case):
    found = results(script)
    assert case in found, f"{script.name} ended early: {found}"
    assert found[case] is None, found[case]
