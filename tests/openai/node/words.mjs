// Messages, tools and helpers of the tests. The bundled model knows this English only.

import assert from "node:assert/strict";

export const MODEL = "hob-tiny-f16";
export const { HOB_URL, HOB_TOKEN } = process.env;
export const BASE = `${HOB_URL}/v1`;

export const INSTRUCTIONS = "You are Ember, a calm home assistant. Use a tool when one fits.";
export const system = { role: "system", content: INSTRUCTIONS };
export const user = (content) => ({ role: "user", content });
export const LIGHT = "Turn on the kitchen light.";
export const WEATHER = "How is the weather in Lima?";
export const FOUND = '{"sky": "sunny", "degrees": 31}'; // As the model has learned it.
export const SUNNY = "It is sunny in Lima, 31 degrees.";
export const TOO_LONG = "Hello! ".repeat(20_000);

const tool = (name, description, ...keys) => {
  const properties = Object.fromEntries(keys.map((key) => [key, { type: "string" }]));
  return { type: "function", function: { name, description, parameters: { type: "object", properties, required: keys } } };
};

export const GET_WEATHER = tool("get_weather", "Get the weather of a city.", "city");
export const SET_LIGHT = tool("set_light", "Turn a light on or off.", "room", "state");
export const CALL = { room: "kitchen", state: "on" };

// JSON of this schema ends soon, whatever the model writes.
export const MOODS = ["good", "bad"];
export const MOOD = {
  type: "object",
  properties: { mood: { enum: MOODS } },
  required: ["mood"],
  additionalProperties: false,
};

export const all = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};

export const post = async (path, body) => {
  const headers = { authorization: `Bearer ${HOB_TOKEN}`, "content-type": "application/json" };
  const response = await fetch(HOB_URL + path, { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(response.status, 200);
  return response.json();
};

// What a plain request answers: the client's own must be the same.
export const said = async (messages, more = {}) => {
  const answer = await post("/v1/chat/completions", { model: MODEL, temperature: 0, messages, ...more });
  return answer.choices[0].message.content;
};

export const GREETED = await said([system, user("Hello!")]);
