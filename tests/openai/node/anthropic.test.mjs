// Anthropic's client for JavaScript: messages, streams, tools and their results, counts, errors.

import Anthropic from "@anthropic-ai/sdk";
import assert from "node:assert/strict";
import { test } from "node:test";
import { CALL, FOUND, GET_WEATHER, GREETED, HOB_TOKEN, HOB_URL, INSTRUCTIONS, LIGHT, MODEL, MOOD, MOODS, SET_LIGHT, SUNNY, TOO_LONG, WEATHER, user } from "./words.mjs";

const client = new Anthropic({ baseURL: HOB_URL, apiKey: HOB_TOKEN, maxRetries: 0 });
const own = ({ function: { name, description, parameters } }) => ({ name, description, input_schema: parameters });
const asked = { model: MODEL, temperature: 0, max_tokens: 80, system: INSTRUCTIONS };
const hello = { ...asked, messages: [user("Hello!")] };

test("a message is answered and streamed", async () => {
  const message = await client.messages.create(hello);
  assert.deepEqual(message.content, [{ type: "text", text: GREETED }]);
  assert.equal(message.stop_reason, "end_turn");
  const stream = client.messages.stream(hello);
  let text = "";
  stream.on("text", (delta) => (text += delta));
  assert.deepEqual((await stream.finalMessage()).content, message.content);
  assert.equal(text, GREETED);
});

test("a tool is called, streamed or not", async () => {
  const light = { ...asked, messages: [user(LIGHT)], tools: [own(SET_LIGHT)] };
  const message = await client.messages.create(light);
  assert.equal(message.stop_reason, "tool_use");
  assert.deepEqual(message.content.at(-1).input, CALL);
  const streamed = await client.messages.stream(light).finalMessage();
  assert.deepEqual(streamed.content.at(-1).input, CALL);
});

test("tools are run until the answer is text", async () => {
  const tool = { ...own(GET_WEATHER), type: "custom", run: () => FOUND, parse: (input) => input };
  const runner = client.beta.messages.toolRunner({ ...asked, messages: [user(WEATHER)], tools: [tool] });
  const message = await runner.runUntilDone();
  assert.equal(message.content[0].text, SUNNY);
});

test("an answer of a schema follows it", async () => {
  const output_config = { format: { type: "json_schema", schema: MOOD } };
  const message = await client.messages.create({ ...hello, output_config });
  assert.ok(MOODS.includes(JSON.parse(message.content[0].text).mood));
});

test("tokens are counted", async () => {
  const { max_tokens, temperature, ...counted } = hello;
  const { input_tokens } = await client.messages.countTokens(counted);
  const { usage } = await client.messages.create(hello);
  assert.equal(usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens, input_tokens);
});

test("errors are those of the client", async () => {
  const other = new Anthropic({ baseURL: HOB_URL, apiKey: "other", maxRetries: 0 });
  await assert.rejects(other.messages.create(hello), Anthropic.AuthenticationError);
  await assert.rejects(client.messages.create({ ...hello, messages: [user(TOO_LONG)] }), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.match(error.message, /prompt is too long: \d+ tokens > \d+ maximum/);
    return true;
  });
  await assert.rejects(client.messages.create({ ...hello, tool_choice: { type: "any" } }), Anthropic.BadRequestError);
  assert.equal((await client.models.list()).data[0].type, "model");
});
