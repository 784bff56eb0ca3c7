"""Runs llama-server's own fast tests against a built hobd, and compares the result with `not_passed.toml`.

    python tests/llama_server/check.py SOURCE [--write] [--only NAME]

SOURCE: llama.cpp's repository, or the part of it that `hob-fetch --llama-server-tests` unpacks. `--write` writes
`docs/LLAMA_SERVER.md`. Fails when fewer than MIN_PASSED cases pass, and when a case passes that is listed, or does not
pass that is not.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from relaxed import LINES, WORDS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/LLAMA_SERVER.md"
MIN_PASSED = 230

# Those of the protocol. The others are of llama-server's router, its tools, MCP, vision, and sleeping.
FILES = [
    "basic", "chat_completion", "completion", "tokenize", "template", "slot_save", "embedding", "stream", "security",
    "compat_anthropic", "compat_oai_responses", "tool_call", "metrics", "ctx_shift", "infill", "ignore_eos", "rerank",
    "lora", "speculative",
]  # fmt: skip

HEAD = """# llama-server's tests

llama.cpp's own tests of llama-server (`tools/server/tests/unit`, the fast ones of the protocol), run against `hobd` in each
`cargo xtask test`. This page is generated from such a run: `tests/llama_server/check.py SOURCE --write`.

`tests/llama_server/shim.py` starts `hobd` where a test starts llama-server, with small models of random weights
(`models.py`), because the tests download theirs from Hugging Face. The run does not compare what depends on a model: words, numbers of
tokens, the prefix of the fingerprint (`relaxed.py`). `hobd` has no setting for `--seed`, `--n-predict`, `--reasoning` and `--verbose`:
the shim adds the fields with that meaning to requests without them. It writes the names of an answer's headers with llama-server's
capitals, because the tests look them up so (HTTP's names have no case). It starts `hobd` with `--allow-origin "*"` where a test
names no origins, because llama-server allows all then. {exact} of the cases that pass do so with every comparison as llama.cpp wrote
it, {relaxed} with words or counts left out.
"""


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("source", type=Path)
    arguments.add_argument("--write", action="store_true")
    arguments.add_argument("--only", help="run the cases whose names contain this, and compare nothing")
    options = arguments.parse_args()
    suite = copy_of(options.source)
    relaxed = relax(suite)
    results = run(suite, options.only)
    if options.only:
        for case, result in results.items():
            print(result["outcome"], case, result["why"], sep="\n" if result["why"] else " ")
        return 0
    return compare(results, relaxed, options.write)


def copy_of(source: Path) -> Path:
    """A copy of the tests, beside the templates that they name by a relative path."""
    work = ROOT / "target/llama_server"
    shutil.rmtree(work, ignore_errors=True)
    suite = work / "tools/server/tests"
    shutil.copytree(source / "tools/server/tests", suite)
    shutil.copytree(source / "models/templates", work / "models/templates")
    shutil.copy(HERE / "shim.py", suite / "conftest.py")
    return suite


def relax(suite: Path) -> set[tuple[str, str]]:
    """Replaces the lines that compare what is of a model. Returns the tests, by file, with such a line or such words."""
    texts = {name: (suite / "unit" / f"test_{name}.py").read_text(encoding="utf-8") for name in FILES}
    before = dict(texts)
    for file, line, replacement, _ in LINES:
        name = file.removeprefix("test_").removesuffix(".py")
        if line not in texts[name]:
            sys.exit(f"{file} has no `{line}` any more: mend tests/llama_server/relaxed.py")
        texts[name] = texts[name].replace(line, replacement)
    relaxed = set()
    for name, text in texts.items():
        (suite / "unit" / f"test_{name}.py").write_text(text, encoding="utf-8")
        for old, new in zip(functions(before[name]), functions(text)):
            if old != new or any(json.dumps(word)[1:-1] in old or word in old for word in WORDS):
                relaxed.add((name, re.search(r"def (test_\w+)", old)[1]))
    return relaxed


def functions(text: str) -> list[str]:
    """The tests of a file, with what stands between one and the one before."""
    parts, last = [], 0
    for end in re.finditer(r"^def (test_\w+).*?(?=^(?:def |@pytest|class |[A-Z_]+ ?=|#)|\Z)", text, re.M | re.S):
        parts.append(text[last : end.end()])
        last = end.end()
    return parts


def run(suite: Path, only: str | None) -> dict[str, dict]:
    results = suite.parent / "results.json"
    environment = {
        **os.environ,
        "HOB_SHIM": str(HERE),
        "HOB_RESULTS": str(results),
        "HOBD": str(Path(os.environ.get("HOBD", ROOT / "target/release/hobd")).resolve()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    files = [f"unit/test_{name}.py" for name in FILES]
    workers = os.environ.get("HOB_WORKERS", str(max(2, (os.cpu_count() or 2))))
    command = [sys.executable, "-m", "pytest", *files, "-m", "not slow", "-p", "no:cacheprovider", "-q", "--tb=short"]
    command += ["-n", workers, "--no-header", "-r", "N"]
    command += ["-k", only] if only else []
    with (suite.parent / "log").open("wb") as log:
        subprocess.run(command, cwd=suite, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    if not results.exists():
        sys.exit((suite.parent / "log").read_text(errors="replace")[-3000:])
    return json.loads(results.read_text())


def compare(results: dict[str, dict], relaxed: set[tuple[str, str]], writes: bool) -> int:
    listed = tomllib.loads((HERE / "not_passed.toml").read_text(encoding="utf-8"))["group"]
    reasons = {case: group["reason"] for group in listed for case in group["cases"]}
    names = {short(case): result for case, result in results.items()}
    passed = {case for case, result in names.items() if result["outcome"] == "passed"}
    problems = [f"does not pass, and is not listed: {case}\n{names[case]['why']}" for case in names if case not in passed | reasons.keys()]
    problems += [f"is listed as not passed, and passes: {case}" for case in reasons if case in passed]
    problems += [f"is listed, and is no case of the suite: {case}" for case in reasons if case not in names]
    if len(passed) < MIN_PASSED:
        problems.append(f"{len(passed)} cases pass, fewer than {MIN_PASSED}")
    print(f"{len(passed)} of {len(names)} cases of llama-server's tests pass")
    page = page_of(names, passed, relaxed, listed)
    if writes:
        PAGE.write_text(page, encoding="utf-8")
    elif not problems and PAGE.read_text(encoding="utf-8") != page:
        problems.append(f"docs/{PAGE.name} says something else than this run: run check.py with --write")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def short(case: str) -> str:
    return case.removeprefix("unit/test_").replace(".py::test_", "::", 1)


def page_of(names, passed, relaxed, listed) -> str:
    of_file = Counter(case.split("::")[0] for case in names)
    of_passed = Counter(case.split("::")[0] for case in passed)
    is_relaxed = lambda case: (case.split("::")[0], "test_" + re.split(r"::|\[", case)[1]) in relaxed
    of_relaxed = Counter(case.split("::")[0] for case in passed if is_relaxed(case))
    totals = (len(names), len(passed), sum(of_relaxed.values()))
    head = HEAD.format(exact=totals[1] - totals[2], relaxed=totals[2])
    lines = [head, "| file | cases | passed | of these, without words or counts of a model |", "|---|---:|---:|---:|"]
    lines += [f"| {name} | {of_file[name]} | {of_passed[name]} | {of_relaxed[name]} |" for name in FILES]
    lines += ["| **all** | **{}** | **{}** | **{}** |".format(*totals), "", "## Not passed", ""]
    lines.append("| cases | reason |\n|---|---|")
    for group in listed:
        cases = Counter(case.split("[")[0] for case in group["cases"])
        shown = ", ".join(f"`{case}`" + (f" ({count})" if count > 1 else "") for case, count in cases.items())
        lines.append(f"| {shown} | {group['reason']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
