"""The example of README.md, run as a user pastes it, before and after a restart."""

import os
import re
import subprocess
import sys
from pathlib import Path

from hobd import PATIENCE_SECS

README = Path(__file__).parents[2] / "README.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ADDRESS = "http://127.0.0.1:8642"


def test_the_example_prints_the_answer_and_what_was_reused(start, tmp_path):
    hobd = start()
    token = tmp_path / ".local/share/hob/token"
    token.parent.mkdir(parents=True)
    token.write_text(hobd.token)
    [example] = EXAMPLE.findall(README.read_text(encoding="utf-8"))
    assert ADDRESS in example

    def run() -> list[str]:
        code = example.replace(ADDRESS, hobd.url)
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=PATIENCE_SECS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    answer, report = run()
    assert "48213" in answer
    assert report.startswith("0 ") and "'conversation': 'locker'" in report
    assert hobd.stop() == 0
    hobd.start()
    answer, report = run()
    assert "48213" in answer
    assert int(report.split()[0]) > 0, report
