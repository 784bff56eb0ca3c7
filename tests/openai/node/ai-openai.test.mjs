// Vercel's AI SDK on OpenAI's responses: texts, objects, tools of several steps, errors.

import { createOpenAI } from "@ai-sdk/openai";
import { check } from "./ai.mjs";
import { BASE, HOB_TOKEN, MODEL } from "./words.mjs";

check((apiKey) => createOpenAI({ baseURL: BASE, apiKey })(MODEL), HOB_TOKEN);
