"""Coding agents in a terminal: they answer, run a command and edit a file as the fake model says, and go on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hobd import Hobd

PACKAGES = Path(__file__).parents[2] / "target/coding_agents/node_modules"
MAX_SECS = 300

# They put their own messages around the user's, and their own words around a result. The model is asked what the
# last message says behind the mark, and ends the turn after a result without one.
TEMPLATE = """{# <tool_call> #}{% if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}{% set asked = namespace(text='') %}{% for message in messages %}{% set text = message.content or '' %}\
{% if message.role == 'tool' %}{% set asked.text = 'Done' %}{% endif %}\
{% if 'Say this: ' in text %}{% set asked.text = text.split('Say this: ') | last %}{% endif %}\
<|im_start|>{{ message.role }}
{{ text }}<|im_end|>
{% endfor %}<|im_start|>user
Say this: {{ asked.text }}<|im_end|>
{{ '<|im_start|>assistant\n' }}"""

# Prints the mark, which the command itself does not have.
COMMAND = "printf 'Say %s: It ran' this"


@pytest.fixture(scope="module")
def hobd(tmp_path_factory):
    directory = tmp_path_factory.mktemp("coding-agents")
    template = directory / "own.jinja"
    template.write_text(TEMPLATE)
    flags = ("--model", "fake", "--ctx", "65536", "--chat-template", str(template))
    daemon = Hobd(directory / "hobd", *flags)
    yield daemon
    daemon.kill()


def saying(text: str) -> str:
    return f"Say this: {text}"


def calling(name: str, **arguments: str) -> str:
    call = json.dumps({"name": name, "arguments": arguments})
    return saying(f"<tool_call>\n{call}\n</tool_call>")


def output_of(package: str, script: str, arguments: list[str], home: Path, variables: dict[str, str]) -> str:
    """What the agent prints, in an empty directory with a home of its own."""
    launcher = PACKAGES / package / script
    programs = PACKAGES.glob(f"{package}-*")  # That of each system is a package of its own.
    node = Path(sys.prefix, "bin/node")
    if not launcher.exists() or not list(programs) or not node.exists():
        pytest.skip(f"npm has not installed {package} for this system below {PACKAGES}")
    work = home / "work"
    work.mkdir()
    ran = subprocess.run(
        [node, launcher, *arguments],
        cwd=work,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MAX_SECS,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture
def codex(hobd, tmp_path):
    """Runs a turn. Returns its items, and its usage."""

    def run(prompt: str, model: str = "any") -> tuple[list[dict], dict]:
        (tmp_path / "config.toml").write_text(f"""
model = "{model}"
model_provider = "hob"
[model_providers.hob]
name = "Hob"
base_url = "{hobd.url}/v1"
env_key = "HOB_TOKEN"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
""")
        arguments = ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--json", prompt]
        places = {"CODEX_HOME": str(tmp_path), "HOB_TOKEN": hobd.token}
        printed = output_of("@openai/codex", "bin/codex.js", arguments, tmp_path, places)
        events = [json.loads(line) for line in printed.splitlines()]
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        [usage] = [event["usage"] for event in events if event["type"] == "turn.completed"]
        return [item for item in items if item["type"] != "error"], usage  # It does not know the model.

    return run


@pytest.fixture
def claude_code(hobd, tmp_path):
    """Runs a turn. Returns its result."""

    def run(prompt: str) -> dict:
        arguments = ["--print", prompt, "--output-format", "json", "--allowedTools", "Bash"]
        variables = {
            "ANTHROPIC_BASE_URL": hobd.url,
            "ANTHROPIC_AUTH_TOKEN": hobd.token,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }
        printed = output_of("@anthropic-ai/claude-code", "cli-wrapper.cjs", arguments, tmp_path, variables)
        return json.loads(printed)

    return run


def test_codex_answers(codex):
    [message], _ = codex(saying("Hello there"))
    assert (message["type"], message["text"]) == ("agent_message", "Hello there")


def test_codex_runs_a_command_and_goes_on_with_its_output(codex):
    [command, message], usage = codex(calling("exec_command", cmd=COMMAND))
    assert (command["type"], command["exit_code"]) == ("command_execution", 0)
    assert command["aggregated_output"] == "Say this: It ran"
    assert message["text"] == "It ran"
    assert usage["cached_input_tokens"] > usage["input_tokens"] / 3


def test_codex_calls_a_tool_of_a_namespace(codex):
    agent = "01a2268c-0062-7a01-9817-dc70c66b4318"
    [call, message], _ = codex(calling("multi_agent_v1__close_agent", target=agent))
    assert (call["type"], call["tool"]) == ("collab_tool_call", "close_agent")
    assert call["receiver_thread_ids"] == [agent]
    assert message["text"] == "Done"


def test_codex_edits_a_file_with_its_custom_tool(codex, tmp_path):
    patch = '*** Begin Patch\n*** Add File: hello.txt\n+"Hello"\n+there\n*** End Patch\n'
    [change, message], _ = codex(calling("apply_patch", input=patch), model="gpt-5.5")
    assert (change["type"], change["status"]) == ("file_change", "completed")
    assert message["text"] == "Done"
    assert (tmp_path / "work/hello.txt").read_text() == '"Hello"\nthere\n'


def test_codex_runs_a_script_whose_tool_is_an_item_of_the_input(codex):
    script = f"const ran = await tools.exec_command({json.dumps({'cmd': COMMAND})}); text(ran.output)"
    [command, message], _ = codex(calling("functions__exec", input=script), model="gpt-5.6-sol")
    assert (command["type"], command["exit_code"]) == ("command_execution", 0)
    assert command["aggregated_output"] == "Say this: It ran"
    assert message["text"] == "It ran"


def test_claude_code_answers(claude_code):
    answer = claude_code(saying("Hello there"))
    assert (answer["result"], answer["num_turns"], answer["is_error"]) == ("Hello there", 1, False)


def test_claude_code_runs_a_command_and_goes_on_with_its_output(claude_code):
    answer = claude_code(calling("Bash", command=COMMAND, description="Says it."))
    assert (answer["result"], answer["num_turns"], answer["is_error"]) == ("It ran", 2, False)
    usage = answer["usage"]
    assert usage["cache_read_input_tokens"] > usage["cache_creation_input_tokens"] / 2
