// Vercel's AI SDK on OpenAI's chats: texts, objects, tools of several steps, errors.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { check } from "./ai.mjs";
import { BASE, HOB_TOKEN, MODEL } from "./words.mjs";

const open = (apiKey) => createOpenAICompatible({ name: "hob", baseURL: BASE, apiKey, supportsStructuredOutputs: true })(MODEL);
check(open, HOB_TOKEN);
