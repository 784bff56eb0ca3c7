// Vercel's AI SDK on Anthropic's messages: texts, objects, tools of several steps, errors.

import { createAnthropic } from "@ai-sdk/anthropic";
import { check } from "./ai.mjs";
import { BASE, HOB_TOKEN, MODEL } from "./words.mjs";

check((apiKey) => createAnthropic({ baseURL: BASE, apiKey })(MODEL), HOB_TOKEN);
