// LangChain for JavaScript on OpenAI's chats and responses: chats, tools, structures, an agent.

import { ChatOpenAI } from "@langchain/openai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "./langchain.mjs";
import { BASE, GREETED, HOB_TOKEN, MODEL, TOO_LONG, system, user } from "./words.mjs";

const open = (apiKey, more) =>
  new ChatOpenAI({ model: MODEL, temperature: 0, maxRetries: 0, apiKey, configuration: { baseURL: BASE }, ...more });
check(open(HOB_TOKEN), open("other"));

test("the same over the Responses API", async () => {
  const model = open(HOB_TOKEN, { useResponsesApi: true });
  assert.equal((await model.invoke([system, user("Hello!")])).text, GREETED);
});

test("a prompt that is too long is known as one", async () => {
  await assert.rejects(open(HOB_TOKEN).invoke(TOO_LONG), { name: "ContextOverflowError" });
});
