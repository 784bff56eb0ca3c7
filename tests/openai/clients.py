"""Notes for docs/CLIENTS.md which client of which version a run exercises with what, and the result.

`pytest --clients-to FILE` writes the notes of the run; `page.py` makes the page of those of all runs.
"""

import inspect
import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

OPENAI = "OpenAI's API"
RESPONSES = "OpenAI's Responses API"
ANTHROPIC = "Anthropic's Messages API"
OLLAMA = "Ollama's API"

APIS = {
    "openai": OPENAI,
    "openai-agents": RESPONSES,
    "pydantic-ai-slim": RESPONSES,
    "anthropic": ANTHROPIC,
    "langchain-anthropic": ANTHROPIC,
    "ollama": OLLAMA,
    "langchain-ollama": OLLAMA,
    "litellm": "OpenAI's API, Anthropic's and Ollama's, and rerankers'",
    "haystack-ai": OPENAI,
    "autogen-ext": OPENAI,
    "smolagents": OPENAI,
    "llm": OPENAI,
    "dspy": "OpenAI's API, chats and responses",
    "outlines": "OpenAI's API, with the forms of vLLM and SGLang",
    "agno": OPENAI,
    "mirascope": OPENAI,
    "websockets": "Hob's events while a user speaks",
    "langchain-openai": "OpenAI's API, chats and responses",
    "instructor": "OpenAI's API, chats and responses",
    "llama-index-llms-openai-like": OPENAI,
    "llama-index-llms-ollama": OLLAMA,
    "@openai/codex": RESPONSES,
    "@anthropic-ai/claude-code": ANTHROPIC,
}

# The scripts of tests/openai/node. The package, and its API.
NODE = {
    "openai": ("openai", "OpenAI's API, chats and responses"),
    "anthropic": ("@anthropic-ai/sdk", ANTHROPIC),
    "ollama": ("ollama", OLLAMA),
    "ai-openai-compatible": ("@ai-sdk/openai-compatible", OPENAI),
    "ai-openai": ("@ai-sdk/openai", RESPONSES),
    "ai-anthropic": ("@ai-sdk/anthropic", ANTHROPIC),
    "ai-ollama": ("ollama-ai-provider-v2", OLLAMA),
    "langchain-openai": ("@langchain/openai", "OpenAI's API, chats and responses"),
    "langchain-anthropic": ("@langchain/anthropic", ANTHROPIC),
    "langchain-ollama": ("@langchain/ollama", OLLAMA),
    "eliza": ("@elizaos/plugin-capacitor-bridge", "elizaOS's device bridge"),
}

# Programs for a terminal, by npm. The package, and its version.
AGENTS = json.loads((Path(__file__).parent / "coding_agents/package.json").read_text())["dependencies"]

# Names of tests that use another client than their file's begin so.
FRAMEWORKS = {
    "codex": "@openai/codex",
    "claude_code": "@anthropic-ai/claude-code",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
    "litellm": "litellm",
    "haystack": "haystack-ai",
    "autogen": "autogen-ext",
    "smolagents": "smolagents",
    "llm": "llm",
    "dspy": "dspy",
    "outlines": "outlines",
    "agno": "agno",
    "mirascope": "mirascope",
    "instructor": "instructor",
    "llama_index_ollama": "llama-index-llms-ollama",
    "llama_index": "llama-index-llms-openai-like",
    "old_openai": "openai",
    "old_anthropic": "anthropic",
    "old_ollama": "ollama",
}

LANGCHAIN = {
    "test_anthropic": "langchain-anthropic",
    "test_ollama": "langchain-ollama",
    "test_langchain": "langchain-openai",
}
OF_FILE = {"test_anthropic": "anthropic", "test_ollama": "ollama", "test_speech": "websockets"}


def client_of(file: str, test: str) -> str:
    """The package whose client a test of Python uses."""
    if test.startswith("test_langchain"):
        return LANGCHAIN[file]
    for start, client in FRAMEWORKS.items():
        if test.startswith(f"test_{start}_"):
            return client
    return OF_FILE.get(file, "openai")


def client_of_script(script: Path) -> tuple[str, str]:
    """The package whose client a script of `node/` uses, and its API."""
    return NODE[script.name.removesuffix(".test.mjs")]


def place_of(item: pytest.Item) -> tuple[str, str, str, str]:
    """The client with its version, its API, what the test's file is about, and that file."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    script = params.get("script")
    if script:
        client, api = client_of_script(script)
        packages = Path(item.config.rootpath, "target", params["directory"], "node_modules")
        package = packages / client / "package.json"
        number = json.loads(package.read_text())["version"]
        what = script.read_text().splitlines()[0].removeprefix("// ")
        return f"{client} {number} for JavaScript", api, what, f"node/{script.name}"
    client = client_of(item.module.__name__, item.name)
    what = inspect.getdoc(item.module).splitlines()[0]
    file = item.path.relative_to(Path(__file__).parent)
    return f"{client} {AGENTS.get(client) or version(client)}", APIS[client], what, str(file)


class Clients:
    """Counts the tests of a run by client and file."""

    def __init__(self, config: pytest.Config):
        self.target = config.getoption("clients_to")
        self.places: dict[str, tuple[str, str, str, str]] = {}
        self.all: Counter[tuple[str, str, str, str]] = Counter()
        self.passed: Counter[tuple[str, str, str, str]] = Counter()
        self.skipped: Counter[tuple[str, str, str, str]] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self.target:
            self.places = {item.nodeid: place_of(item) for item in session.items}
            self.all.update(self.places.values())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.target and report.when == "call" and not report.failed:
            counted = self.passed if report.passed else self.skipped
            counted[self.places[report.nodeid]] += 1

    def pytest_sessionfinish(self) -> None:
        if self.target:
            rows = [
                {"client": client, "api": api, "what": what, "file": file, "cases": count,
                 "passed": self.passed[place], "skipped": self.skipped[place]}
                for place, count in self.all.items()
                for client, api, what, file in [place]
            ]
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self.target.write_text(json.dumps(rows, indent=1))
