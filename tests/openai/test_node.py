"""Clients for JavaScript, each by a script of `node/`, whose cases are cases here too.

- `node/package.json` pins the newest versions, `node_older/package.json` the last ones of the major version before,
  which need other versions of each other: ollama-ai-provider-v2 3.6.0 needs ai 6, @langchain/openai 1.5.8 openai 6.
- A script runs with each package.json that names its client.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from clients import client_of_script
from hobd import Hobd

HERE = Path(__file__).parent
SCRIPTS = HERE / "node"
TARGET = HERE.parents[1] / "target"  # Has the packages of each directory, under its name.
DIRECTORIES = ["node", "node_older"]
CASE = re.compile(r'^ *test\("(.+?)"', re.MULTILINE)


def cases(script: Path) -> list[str]:
    """Those of the script, and of the one beside it that it shares with others."""
    text = script.read_text()
    shared = [SCRIPTS / name for name in re.findall(r'import { check } from "\./(.+?)"', text)]
    return [case for source in [*shared, script] for case in CASE.findall(source.read_text())]


def scripts(directory: str) -> list[Path]:
    packages = json.loads((HERE / directory / "package.json").read_text())["dependencies"]
    return [script for script in sorted(SCRIPTS.glob("*.test.mjs")) if client_of_script(script)[0] in packages]


CASES = [pytest.param(directory, script, case, id=f"{directory}/{script.stem}: {case}")
         for directory in DIRECTORIES for script in scripts(directory) for case in cases(script)]


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
    """Runs a script with the packages of a directory, once: the failure of each of its cases, or None."""
    for directory in DIRECTORIES:
        for source in SCRIPTS.glob("*.mjs"):
            shutil.copy(source, TARGET / directory)
    node = Path(sys.prefix, "bin/node")
    done: dict[tuple[str, str], dict[str, str | None]] = {}

    def run(directory: str, script: Path) -> dict[str, str | None]:
        key = (directory, script.name)
        if key not in done:
            daemon, agent = hobd, {}
            if script.name == "eliza.test.mjs":
                daemon, port = request.getfixturevalue("device")
                agent = {"HOB_AGENT_PORT": str(port)}
            places = {"HOME": str(daemon.directory), "HOB_URL": daemon.url, "HOB_TOKEN": daemon.token}
            environment = {"PATH": os.environ["PATH"], **places, **agent}
            command = [node, "--test", "--test-reporter=junit", script.name]
            ran = subprocess.run(
                command, cwd=TARGET / directory, env=environment, capture_output=True, text=True, timeout=120,
            )
            found = ElementTree.fromstring(ran.stdout).iter("testcase")
            done[key] = {case.get("name"): case.findtext("failure") for case in found}
        return done[key]

    return run


@pytest.mark.parametrize("directory, script, case", CASES)
def test_a_script_passes(results, directory, script, case):
    found = results(directory, script)
    assert case in found, f"{script.name} ended early: {found}"
    assert found[case] is None, found[case]
