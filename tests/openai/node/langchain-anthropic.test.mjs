// LangChain for JavaScript on Anthropic's messages: chats, tools, structures, an agent.

import { ChatAnthropic } from "@langchain/anthropic";
import { check } from "./langchain.mjs";
import { HOB_TOKEN, HOB_URL, MODEL } from "./words.mjs";

const open = (apiKey) => new ChatAnthropic({ model: MODEL, temperature: 0, maxTokens: 80, maxRetries: 0, apiKey, anthropicApiUrl: HOB_URL });
check(open(HOB_TOKEN), open("other"));
