// The tests of LangChain, the same for each of its models.

import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { createAgent } from "langchain";
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { CALL, FOUND, GET_WEATHER, GREETED, INSTRUCTIONS, LIGHT, SET_LIGHT, SUNNY, WEATHER, all } from "./words.mjs";

const asked = (words) => [new SystemMessage(INSTRUCTIONS), new HumanMessage(words)];

// `model` greets without sampling; `refuses` is one without the right token.
export const check = (model, refuses) => {
  test("a chat is answered and streamed", async () => {
    const answer = await model.invoke(asked("Hello!"));
    assert.equal(answer.text, GREETED);
    assert.ok(answer.usage_metadata.output_tokens > 0);
    const chunks = await all(await model.stream(asked("Hello!")));
    assert.equal(chunks.map((chunk) => chunk.text).join(""), GREETED);
  });

  test("chats are answered in a batch", async () => {
    const answers = await model.batch([asked("Hello!"), asked("Hello!")]);
    assert.deepEqual(answers.map((answer) => answer.text), [GREETED, GREETED]);
  });

  test("a tool is called, streamed or not, and its result read", async () => {
    const light = await model.bindTools([SET_LIGHT]).invoke(asked(LIGHT));
    assert.deepEqual(light.tool_calls.map(({ name, args }) => [name, args]), [["set_light", CALL]]);
    const chunks = await all(await model.bindTools([SET_LIGHT]).stream(asked(LIGHT)));
    const whole = chunks.reduce((all, chunk) => all.concat(chunk));
    assert.deepEqual(whole.tool_calls[0].args, CALL);

    const bound = model.bindTools([GET_WEATHER]);
    const called = await bound.invoke(asked(WEATHER));
    const result = new ToolMessage({ content: FOUND, tool_call_id: called.tool_calls[0].id, name: "get_weather" });
    assert.equal((await bound.invoke([...asked(WEATHER), called, result])).text, SUNNY);
  });

  test("an answer has a structure", async () => {
    const Light = z.object({ on: z.boolean() });
    const structured = model.withStructuredOutput(Light, { name: "light", method: "jsonSchema" });
    assert.equal(typeof (await structured.invoke(asked("Hello!"))).on, "boolean");
  });

  test("an agent calls its tool and answers", async () => {
    const { name, description, parameters } = GET_WEATHER.function;
    const weather = tool(() => FOUND, { name, description, schema: parameters });
    const agent = createAgent({ model, tools: [weather], systemPrompt: INSTRUCTIONS });
    const { messages } = await agent.invoke({ messages: [{ role: "user", content: WEATHER }] });
    assert.deepEqual(messages.map((message) => message.type), ["human", "ai", "tool", "ai"]);
    assert.equal(messages.at(-1).text, SUNNY);
  });

  test("a wrong token is refused", async () => {
    await assert.rejects(refuses.invoke(asked("Hello!")), /401|token|authentication/i);
  });
};
