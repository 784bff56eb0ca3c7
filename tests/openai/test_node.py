"""Clients for JavaScript, each by a script of `node/`, whose cases are cases here too."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

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
def results(hobd):
    """Runs a script, once: the failure of each of its cases, or None."""
    for source in HERE.glob("*.mjs"):
        shutil.copy(source, TARGET)
    node = Path(sys.prefix, "bin/node")
    environment = {"PATH": os.environ["PATH"], "HOME": str(hobd.directory), "HOB_URL": hobd.url, "HOB_TOKEN": hobd.token}
    done: dict[str, dict[str, str | None]] = {}

    def run(script: Path) -> dict[str, str | None]:
        if script.name not in done:
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
