// LangChain for JavaScript on Ollama's API: chats, tools, structures, an agent.

import { ChatOllama } from "@langchain/ollama";
import { check } from "./langchain.mjs";
import { HOB_TOKEN, HOB_URL, MODEL } from "./words.mjs";

const open = (token) =>
  new ChatOllama({ model: MODEL, temperature: 0, maxRetries: 0, baseUrl: HOB_URL, headers: { authorization: `Bearer ${token}` } });
check(open(HOB_TOKEN), open("other"));
