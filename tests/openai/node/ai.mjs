// The tests of Vercel's AI SDK, the same for each provider of a protocol.

import { APICallError, NoSuchModelError, Output, generateObject, generateText, jsonSchema, stepCountIs, streamObject, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { FOUND, GET_WEATHER, GREETED, INSTRUCTIONS, MOOD, MOODS, SUNNY, TOO_LONG, WEATHER, all } from "./words.mjs";

const { name, description, parameters } = GET_WEATHER.function;

// `open` makes a model of an access token; `token` is the one that is right. `more`: options of the provider.
export const check = (open, token, more = {}) => {
  const model = open(token);
  const asked = { model, temperature: 0, maxRetries: 0, system: INSTRUCTIONS, ...more };
  const hello = { ...asked, prompt: "Hello!", maxOutputTokens: 80 };
  const execute = async (input) => {
    assert.deepEqual(input, { city: "Lima" });
    return FOUND;
  };
  const tools = { [name]: tool({ description, inputSchema: jsonSchema(parameters), execute }) };
  const weather = { ...asked, prompt: WEATHER, tools, stopWhen: stepCountIs(3) };
  const schema = jsonSchema(MOOD);

  test("a text is generated and streamed", async () => {
    const whole = await generateText(hello);
    assert.equal(whole.text, GREETED);
    assert.equal(whole.finishReason, "stop");
    assert.ok(whole.usage.inputTokens > 0 && whole.usage.outputTokens > 0);
    assert.equal((await all(streamText(hello).textStream)).join(""), GREETED);
  });

  test("a tool is called and its result is read", async () => {
    const whole = await generateText(weather);
    assert.equal(whole.steps.length, 2);
    assert.equal(whole.text, SUNNY);
  });

  test("the same is streamed", async () => {
    const streamed = streamText(weather);
    const kinds = (await all(streamed.fullStream)).map((part) => part.type);
    for (const kind of ["tool-input-delta", "tool-call", "tool-result"]) assert.ok(kinds.includes(kind), kind);
    assert.equal(await streamed.text, SUNNY);
  });

  test("an object is generated and streamed", async () => {
    const whole = await generateObject({ ...hello, schema });
    assert.ok(MOODS.includes(whole.object.mood));
    const streamed = streamObject({ ...hello, schema });
    await all(streamed.partialObjectStream);
    assert.deepEqual(await streamed.object, whole.object);
    // What replaces these two in ai 7.
    assert.deepEqual(await streamText({ ...hello, output: Output.object({ schema }) }).output, whole.object);
  });

  test("an answer with tools has the form too", async () => {
    const options = { ...hello, tools, toolChoice: "none", output: Output.object({ schema }) };
    assert.ok(MOODS.includes((await generateText(options)).output.mood));
  });

  test("errors are those of the SDK", async () => {
    const refused = (more) => generateText({ ...hello, ...more });
    await assert.rejects(refused({ prompt: TOO_LONG }), (error) => {
      assert.ok(APICallError.isInstance(error) && !error.isRetryable);
      assert.equal(error.statusCode, 400);
      assert.match(error.responseBody, /maximum context length|prompt is too long/);
      return true;
    });
    await assert.rejects(refused({ model: open("other") }), (error) => error.statusCode === 401);
  });

  test("a stream is aborted", async () => {
    const controller = new AbortController();
    const streamed = streamText({ ...hello, abortSignal: controller.signal });
    for await (const _ of streamed.textStream) controller.abort();
    assert.equal((await generateText(hello)).text, GREETED);
  });
};
