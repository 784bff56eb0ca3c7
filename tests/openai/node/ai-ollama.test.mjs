// Vercel's AI SDK on Ollama's API: texts, objects, tools of several steps, errors.

import { createOllama } from "ollama-ai-provider-v2";
import { check } from "./ai.mjs";
import { HOB_TOKEN, HOB_URL, MODEL } from "./words.mjs";

const open = (token) => createOllama({ baseURL: `${HOB_URL}/api`, headers: { authorization: `Bearer ${token}` } })(MODEL);
// This provider sends the temperature beside `options`, where Ollama's server does not read it.
check(open, HOB_TOKEN, { providerOptions: { ollama: { options: { temperature: 0 } } } });
