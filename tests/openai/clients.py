"""Writes docs/CLIENTS.md: which client of which version was exercised with what, and the result.

`pytest tests/openai --write-clients` writes it. A run of all tests fails where the page says something else.
"""

import inspect
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/CLIENTS.md"

HEAD = """# Clients

Programs of others that talk to `hobd` in each run of `cargo xtask test`, unmodified, at the versions that
`tests/openai/requirements.txt` pins. This page is generated from such a run: `target/venv/bin/python -m pytest
tests/openai --write-clients`.
"""

APIS = {
    "openai": "OpenAI's API",
    "openai-agents": "OpenAI's Responses API",
    "pydantic-ai-slim": "OpenAI's Responses API",
    "anthropic": "Anthropic's Messages API",
    "langchain-anthropic": "Anthropic's Messages API",
    "ollama": "Ollama's API",
    "langchain-ollama": "Ollama's API",
    "litellm": "OpenAI's API, Anthropic's and Ollama's",
    "haystack-ai": "OpenAI's API",
    "autogen-ext": "OpenAI's API",
    "smolagents": "OpenAI's API",
    "llm": "OpenAI's API",
    "websockets": "Hob's events while a user speaks",
}


FRAMEWORKS = {
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
    "litellm": "litellm",
    "haystack": "haystack-ai",
    "autogen": "autogen-ext",
    "smolagents": "smolagents",
    "llm": "llm",
}


def client_of(file: str, test: str) -> str:
    """The package whose client a test uses. The names of tests of frameworks begin with the framework's."""
    if test.startswith("test_langchain"):
        return "langchain-anthropic" if file == "test_anthropic" else "langchain-ollama"
    for start, client in FRAMEWORKS.items():
        if test.startswith(f"test_{start}_"):
            return client
    of_file = {"test_anthropic": "anthropic", "test_ollama": "ollama", "test_speech": "websockets"}
    return of_file.get(file, "openai")


class Clients:
    """Counts the tests of a run by client and file."""

    def __init__(self, config: pytest.Config):
        self.config = config
        self.sentences: dict[str, str] = {}
        self.all: Counter[tuple[str, str]] = Counter()
        self.passed: Counter[tuple[str, str]] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            file = item.module.__name__
            self.sentences[file] = inspect.getdoc(item.module).splitlines()[0]
            self.all[self._place(item.nodeid)] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed[self._place(report.nodeid)] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.config.getoption("write_clients"):
            PAGE.write_text(self._page(), encoding="utf-8")
        elif self._is_whole(session) and PAGE.read_text(encoding="utf-8") != self._page():
            print(f"\n{PAGE.name} says something else than this run: run it with --write-clients")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @staticmethod
    def _is_whole(session: pytest.Session) -> bool:
        files = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
        chosen = session.config.getoption("keyword") or session.config.getoption("collectonly")
        return not chosen and not session.testsfailed and {item.module.__name__ for item in session.items} == files

    @staticmethod
    def _place(node: str) -> tuple[str, str]:
        path, test = node.split("::", 1)
        file = Path(path).stem
        return client_of(file, test), file

    def _page(self) -> str:
        parts = [HEAD]
        for client, api in APIS.items():
            files = sorted(file for name, file in self.all if name == client)
            parts.append(f"\n## {client} {version(client)}\n\n{api}.\n\n| what is exercised | cases | passed |\n|---|---:|---:|")
            for file in files:
                place = (client, file)
                what = self.sentences[file].removesuffix(".")
                parts.append(f"| {what} (`{file}.py`) | {self.all[place]} | {self.passed[place]} |")
        return "\n".join(parts) + "\n"
