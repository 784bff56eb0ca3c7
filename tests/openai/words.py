"""Messages, tools and helpers of the tests. The bundled model knows this English only."""

from openai import OpenAI

MODEL = "hob-tiny-f16"


def system(text: str) -> dict:
    return {"role": "system", "content": text}


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


def tool(name: str, description: str, **parameters: str) -> dict:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


HELPFUL = system("You are Ember, a calm home assistant. Use a tool when one fits.")
GET_WEATHER = tool("get_weather", "Get the weather of a city.", city="string")
SET_LIGHT = tool("set_light", "Turn a light on or off.", room="string", state="string")


def ask(client: OpenAI, messages: list[dict] | str, **options):
    """A greedy answer: equal messages give equal answers."""
    if isinstance(messages, str):
        messages = [user(messages)]
    options = {"model": MODEL, "temperature": 0, **options}
    return client.chat.completions.create(messages=messages, **options)


def complete(client: OpenAI, prompt, **options):
    """The same for the older endpoint."""
    return client.completions.create(prompt=prompt, **{"model": MODEL, "temperature": 0, **options})


def text(answer) -> str:
    return answer.choices[0].message.content


def cached(answer) -> int:
    return answer.usage.prompt_tokens_details.cached_tokens


def places(answer) -> dict[str, int]:
    """The prompt's tokens by origin."""
    return answer.hob["tokens"]


def computed(answer) -> int:
    return places(answer)["computed"]


class Chat:
    """A chat as clients hold it: every request sends the whole history."""

    def __init__(self, client: OpenAI, conversation: str | None = None, *history: dict):
        self.client = client
        self.conversation = conversation
        self.messages = list(history)
        self.tokens = 0  # Prompt and answer of the last turn.

    def say(self, words: str, **options):
        if self.conversation:
            options["extra_body"] = {"conversation": self.conversation}
        answer = ask(self.client, [*self.messages, user(words)], **options)
        self.messages += [user(words), answer.choices[0].message.to_dict()]
        self.new_tokens = answer.usage.prompt_tokens - self.tokens
        self.tokens = answer.usage.total_tokens
        return answer
