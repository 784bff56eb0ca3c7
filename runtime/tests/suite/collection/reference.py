#!/usr/bin/env python3
"""Renders chat templates with jinja2, configured as Hugging Face's library configures it.

    python3 reference.py TEMPLATES cases.json > digests.json
    python3 reference.py TEMPLATES cases.json --show TEMPLATE CASE

TEMPLATES is a directory of *.jinja files. digests.json maps each template and case to the first 16 hex digits of the prompt's
SHA-256, or to "refused" where the template raises an exception of its own, or to "failed" where jinja2 does.

Source: transformers/utils/chat_template_utils.py, `_compile_jinja_template` (transformers 4.57). Needs jinja2 3.1.
"""

import copy
import hashlib
import json
import pathlib
import sys
from datetime import datetime, timezone

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK = datetime(2024, 7, 26, tzinfo=timezone.utc)


class Generation(jinja2.ext.Extension):
    """`{% generation %}` marks training data and leaves its text as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


class Refused(Exception):
    pass


def refuse(message):
    raise Refused(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = CLOCK.strftime
    return made


def with_objects(messages):
    """The arguments of calls as objects, the form that Hugging Face documents."""
    messages = copy.deepcopy(messages)
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return messages


def with_reasoning(source, messages):
    """The reasoning of answers where the template reads it, as runtime/src/template/reasoning.rs has it."""

    def placed(message):
        thought, content = message.get("reasoning_content"), message["content"]
        if not thought or message["role"] != "assistant" or "reasoning_content" in source:
            return message
        if "both content and thinking" in source:
            if content and message.get("tool_calls"):
                return {**message, "content": "", "thinking": f"{thought}\n\n{content}"}
            return {**message, "thinking": thought}
        if "message.thinking" in source:
            return {**message, "thinking": thought}
        if "message.reasoning" in source:
            return {**message, "reasoning": thought}
        if "== 'thinking'" in source:
            said = [{"type": "text", "text": content}] if content else []
            return {**message, "content": [{"type": "thinking", "thinking": thought}, *said]}
        return message

    return [placed(message) for message in messages]


def with_results(source, messages):
    """Results in the answers that called, for Gemma 4's older template, as runtime/src/template/gemma.rs has it."""
    if "<|tool_call>call:" not in source or "tool_responses" not in source or "tool_call_id" in source:
        return messages
    placed, rest = [], list(messages)
    while rest:
        message, responses = dict(rest.pop(0)), []
        calls = message.get("tool_calls") or []
        while calls and rest and rest[0]["role"] == "tool":
            result = rest.pop(0)
            by_id = [call for call in calls if call["id"] == result["tool_call_id"]]
            call = (by_id or calls[len(responses):])[0]
            responses.append({"name": call["function"]["name"], "response": result["content"]})
        if responses:
            said = message["content"]
            if said and placed and placed[-1].get("tool_responses") and not placed[-1]["content"]:
                placed[-1]["content"] = said
            elif said:
                placed.append({"role": "assistant", "content": said})
            is_text = rest and rest[0]["role"] == "assistant" and not rest[0].get("tool_calls")
            message["content"] = rest.pop(0)["content"] if is_text else ""
            message["tool_responses"] = responses
        placed.append(message)
    return placed


def joined(messages):
    def text(content):
        return "".join(part.get("text", "") for part in content) if isinstance(content, list) else content

    return [{**message, "content": text(message["content"])} for message in messages]


def has_texts(prompt, messages):
    """Whether it has the texts of parts, and not the parts as a list: else Hob gives the template one text."""
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    parts = [part for part in parts if part["type"] == "text"]
    is_list = "'type': 'text'" in prompt or '"type": "text"' in prompt
    return all(part["text"].strip() in prompt for part in parts) and not (parts and is_list)


def render(source, case):
    variables = {
        "tools": case.get("tools"),
        "documents": None,
        "add_generation_prompt": case.get("add_generation_prompt", True),
        "bos_token": "<BOS>",
        "eos_token": "<EOS>",
        **case.get("extra", {}),
    }
    outcome = None
    given = with_results(source, with_reasoning(source, case["messages"]))
    for messages in (with_objects(given), given, joined(given)):
        try:
            prompt = environment().from_string(source).render(messages=messages, **variables)
            if has_texts(prompt, messages):
                return prompt
        except Refused as error:
            outcome = outcome or ("refused", str(error))
            if given == joined(given):
                break
        except Exception as error:  # jinja2 raises Python's own errors, too.
            outcome = outcome or ("failed", f"{type(error).__name__}: {error}")
    return outcome


def digest(prompt):
    return prompt[0] if isinstance(prompt, tuple) else hashlib.sha256(prompt.encode()).hexdigest()[:16]


def main():
    directory, cases = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
    if "--show" in sys.argv:
        template, case = sys.argv[-2:]
        shown = render((directory / template).read_text(), cases[case])
        print(shown if isinstance(shown, str) else f"{shown[0]}: {shown[1]}", end="")
        return
    templates = sorted(directory.glob("*.jinja"))
    digests = {
        path.name: {name: digest(render(path.read_text(), case)) for name, case in cases.items()} for path in templates
    }
    print(json.dumps(digests, indent=1))


main()
