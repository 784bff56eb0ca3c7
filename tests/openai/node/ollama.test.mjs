// Ollama's client for JavaScript: chats, streams, tools, formats, models, errors.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Ollama } from "ollama";
import { CALL, FOUND, GET_WEATHER, GREETED, HOB_TOKEN, HOB_URL, INSTRUCTIONS, LIGHT, MODEL, MOOD, MOODS, SET_LIGHT, SUNNY, WEATHER, all, system, user } from "./words.mjs";

const client = new Ollama({ host: HOB_URL, headers: { authorization: `Bearer ${HOB_TOKEN}` } });
const greedy = { model: MODEL, options: { temperature: 0 } };
const hello = { ...greedy, messages: [system, user("Hello!")] };

test("a chat is answered and streamed", async () => {
  const whole = await client.chat(hello);
  assert.equal(whole.message.content, GREETED);
  assert.equal(whole.done_reason, "stop");
  const parts = await all(await client.chat({ ...hello, stream: true }));
  assert.equal(parts.map((part) => part.message.content).join(""), GREETED);
  assert.equal(parts.at(-1).eval_count, whole.eval_count);
});

test("a tool is called and its result read", async () => {
  const light = await client.chat({ ...greedy, messages: [system, user(LIGHT)], tools: [SET_LIGHT] });
  const called = light.message.tool_calls[0].function;
  assert.deepEqual([called.name, called.arguments], ["set_light", CALL]);
  const asked = { ...greedy, messages: [system, user(WEATHER)], tools: [GET_WEATHER] };
  const { message } = await client.chat(asked);
  const result = { role: "tool", tool_name: "get_weather", content: FOUND };
  const answer = await client.chat({ ...asked, messages: [...asked.messages, message, result] });
  assert.equal(answer.message.content, SUNNY);
});

test("a schema is followed", async () => {
  const answer = await client.chat({ ...hello, format: MOOD });
  assert.ok(MOODS.includes(JSON.parse(answer.message.content).mood));
});

test("a prompt is answered", async () => {
  const answer = await client.generate({ ...greedy, system: INSTRUCTIONS, prompt: "Hello!" });
  assert.equal(answer.response, GREETED);
});

test("models are listed and shown", async () => {
  const [listed] = (await client.list()).models;
  const [running] = (await client.ps()).models;
  assert.equal(listed.name, running.name);
  assert.ok((await client.show({ model: listed.name })).capabilities.includes("tools"));
});

test("errors are those of the client", async () => {
  await assert.rejects(client.show({ model: "llama3" }), (error) => error.status_code === 404);
  await assert.rejects(client.chat({ ...hello, options: { temperature: 9 } }), /options\.temperature/);
  await assert.rejects(new Ollama({ host: HOB_URL }).list(), (error) => error.status_code === 401);
});

test("a stream is aborted", async () => {
  // It would go on for a while.
  const stream = await client.chat({ ...hello, stream: true, ignore_eos: true, options: { temperature: 0, num_predict: 2_000 } });
  const read = async () => {
    for await (const _ of stream) stream.abort();
  };
  await assert.rejects(read, { name: "AbortError" });
  assert.equal((await client.chat(hello)).message.content, GREETED);
});
