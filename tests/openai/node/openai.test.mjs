// OpenAI's client for JavaScript: chats, streams, tools, parsed answers, errors, a conversation that goes on.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { BASE, CALL, FOUND, GET_WEATHER, GREETED, HOB_TOKEN, LIGHT, MODEL, MOODS, SET_LIGHT, SUNNY, TOO_LONG, WEATHER, all, system, user } from "./words.mjs";

const client = new OpenAI({ baseURL: BASE, apiKey: HOB_TOKEN, maxRetries: 0 });
const hello = { model: MODEL, temperature: 0, messages: [system, user("Hello!")] };

test("a chat is answered and streamed", async () => {
  const whole = await client.chat.completions.create(hello);
  assert.equal(whole.choices[0].message.content, GREETED);
  const stream = await client.chat.completions.create({ ...hello, stream: true, stream_options: { include_usage: true } });
  const chunks = await all(stream);
  assert.equal(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), GREETED);
  assert.equal(chunks.at(-1).usage.total_tokens, whole.usage.total_tokens);
});

test("tools are run until the answer is text", async () => {
  const calls = [];
  const get_weather = (asked) => {
    calls.push(asked);
    return FOUND;
  };
  const tool = { ...GET_WEATHER, function: { ...GET_WEATHER.function, function: get_weather, parse: JSON.parse } };
  for (const stream of [false, true]) {
    const runner = client.chat.completions.runTools({
      model: MODEL, temperature: 0, stream, messages: [system, user(WEATHER)], tools: [tool],
    });
    assert.equal(await runner.finalContent(), SUNNY);
  }
  assert.deepEqual(calls, [{ city: "Lima" }, { city: "Lima" }]);
});

test("the pieces of a streamed call join to its arguments", async () => {
  const stream = client.chat.completions.stream({ ...hello, messages: [system, user(LIGHT)], tools: [SET_LIGHT] });
  const completion = await stream.finalChatCompletion();
  const [call] = completion.choices[0].message.tool_calls;
  assert.deepEqual(JSON.parse(call.function.arguments), CALL);
  assert.equal(completion.choices[0].finish_reason, "tool_calls");
});

test("an answer is parsed into a type, with tools beside it too", async () => {
  const Mood = z.object({ mood: z.enum(MOODS) });
  const response_format = zodResponseFormat(Mood, "mood");
  const strict = { ...SET_LIGHT, function: { ...SET_LIGHT.function, strict: true } };
  for (const more of [{}, { tools: [strict], tool_choice: "none" }]) {
    const parsed = await client.chat.completions.parse({ ...hello, ...more, response_format, max_tokens: 40 });
    assert.ok(MOODS.includes(parsed.choices[0].message.parsed.mood));
  }
});

test("a response is created, streamed and followed", async () => {
  const asked = { model: MODEL, temperature: 0, instructions: system.content, input: "Hello!" };
  const whole = await client.responses.create(asked);
  assert.equal(whole.output_text, GREETED);
  const response = await client.responses.stream(asked).finalResponse();
  assert.equal(response.output_text, GREETED);
  const next = await client.responses.create({ ...asked, input: "Bye!", previous_response_id: whole.id });
  assert.ok(next.usage.input_tokens_details.cached_tokens >= whole.usage.total_tokens - 1);
});

test("a conversation goes on by its name", async () => {
  const conversation = "of the client for JavaScript";
  const told = await client.chat.completions.create({ ...hello, conversation });
  const messages = [user("Hello!")];
  const next = await client.chat.completions.create({ ...hello, conversation, messages, hob: { append: true } });
  assert.ok(next.usage.prompt_tokens_details.cached_tokens >= told.usage.total_tokens - 1);
});

test("errors are those of the client, and the connection stays usable", async () => {
  const refused = (more) => client.chat.completions.create({ ...hello, ...more });
  await assert.rejects(refused({ messages: [user(TOO_LONG)] }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.code, "context_length_exceeded");
    return true;
  });
  await assert.rejects(refused({ temperature: 9 }), (error) => error.param === "temperature");
  await assert.rejects(client.images.generate({ prompt: "x" }), OpenAI.NotFoundError);
  const other = new OpenAI({ baseURL: BASE, apiKey: "other", maxRetries: 0 });
  await assert.rejects(other.models.list(), OpenAI.AuthenticationError);
  assert.equal((await refused({})).choices[0].message.content, GREETED);
});

test("a stream is aborted", async () => {
  const stream = await client.chat.completions.create({ ...hello, stream: true, ignore_eos: true, max_tokens: 2_000 });
  let count = 0;
  for await (const _ of stream) if (++count === 4) stream.controller.abort();
  assert.ok(count < 2_000);
  assert.equal((await client.chat.completions.create(hello)).choices[0].message.content, GREETED);
});

test("twelve chats at once are answered", async () => {
  const answers = await Promise.all(Array.from({ length: 12 }, () => client.chat.completions.create(hello, { maxRetries: 5 })));
  assert.ok(answers.every((answer) => answer.choices[0].message.content === GREETED));
});

test("models are listed", async () => {
  const models = await all(client.models.list());
  assert.deepEqual(models.map((model) => model.id), [MODEL]);
});
