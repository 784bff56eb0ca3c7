"""Answers constrained to JSON."""

import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from words import MODEL, ask, text, user


class Light(BaseModel):
    """Every value is bounded: a very small model may never end it."""

    model_config = ConfigDict(extra="forbid")

    room: Literal["kitchen", "hallway", "attic"]
    state: Literal["on", "off"]
    minutes: int = Field(ge=0, le=90)


def schema_format(schema: dict, **more) -> dict:
    return {"type": "json_schema", "json_schema": {"name": "light", "schema": schema, **more}}


def test_an_answer_follows_the_schema(client):
    answer = ask(
        client, "Turn on the attic light.", response_format=schema_format(Light.model_json_schema())
    )
    assert answer.choices[0].finish_reason == "stop"
    Light.model_validate_json(text(answer))


def test_the_client_reads_an_answer_into_a_type(client):
    answer = client.chat.completions.parse(
        model=MODEL,
        messages=[user("Turn off the hallway light.")],
        temperature=0,
        response_format=Light,
    )
    assert isinstance(answer.choices[0].message.parsed, Light)


@pytest.mark.parametrize("seed", range(5))
def test_sampling_cannot_leave_the_schema(client, seed):
    answer = ask(
        client,
        "Turn on the kitchen light.",
        response_format=schema_format(Light.model_json_schema(), strict=True),
        temperature=2,
        seed=seed,
    )
    Light.model_validate_json(text(answer))


def test_a_streamed_answer_follows_the_schema(client):
    form = schema_format(Light.model_json_schema())
    chunks = ask(client, "Turn on the attic light.", response_format=form, stream=True)
    whole = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    Light.model_validate_json(whole)


def test_a_schema_may_refer_to_itself(client):
    schema = {
        "type": "object",
        "properties": {"colors": {"$ref": "#/$defs/colors"}},
        "required": ["colors"],
        "additionalProperties": False,
        "$defs": {
            "colors": {
                "type": "array",
                "items": {"enum": ["red", "green"]},
                "minItems": 2,
                "maxItems": 3,
            }
        },
    }
    answer = ask(client, "What color is grass?", response_format=schema_format(schema))
    colors = json.loads(text(answer))["colors"]
    assert 2 <= len(colors) <= 3 and set(colors) <= {"red", "green"}


def test_a_json_object_answer_is_an_object(hobd, client):
    brace = hobd.client(base_url=hobd.url).post("/tokenize", cast_to=object, body={"content": "}"})
    answer = ask(
        client,
        "Hello!",
        response_format={"type": "json_object"},
        logit_bias={str(token): 100 for token in brace["tokens"]},  # Else it would never end.
    )
    assert json.loads(text(answer)) == {}
    assert answer.choices[0].finish_reason == "stop"


def test_a_truncated_object_ends_with_length(client):
    answer = ask(client, "Hello!", response_format={"type": "json_object"}, max_tokens=3)
    assert text(answer).startswith("{")
    assert answer.choices[0].finish_reason == "length"


def test_response_format_text_leaves_answers_as_text(client):
    answer = ask(client, "Hello!", response_format={"type": "text"})
    assert text(answer) == "Hello! How can I help you?"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"$ref": "#/$defs/nowhere"},
        {"type": "object", "properties": 5},
        False,
    ],
)
def test_an_unsupported_schema_is_refused_by_name(client, schema):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "Hello!", response_format=schema_format(schema))
    assert refused.value.param == "response_format.json_schema.schema"
    assert refused.value.code == "grammar"
