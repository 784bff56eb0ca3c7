// The device bridge of elizaOS's agent, which hobd dials: prompts, weights, errors.

import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

const { HOB_AGENT_PORT, HOB_TOKEN, HOB_URL } = process.env;
// The bridge reads them when it is imported, and loads no file that is not there.
const MODEL = import.meta.filename;
Object.assign(process.env, { ELIZA_DEVICE_BRIDGE_ENABLED: "1", ELIZA_LOCAL_MODEL_PATH: MODEL });
const bridge = await import("@elizaos/plugin-capacitor-bridge");

const agent = http.createServer();
const sockets = [];
agent.on("connection", (socket) => sockets.push(socket));
const models = new Map(); // As the agent's runtime keeps them.
const runtime = { getModel: (kind) => models.get(kind), registerModel: (kind, handler) => models.set(kind, handler) };
const generate = (params) => models.get("TEXT_LARGE")(runtime, params);
const hobd = async (path) => (await fetch(HOB_URL + path, { headers: { authorization: `Bearer ${HOB_TOKEN}` } })).json();

before(async () => {
  await bridge.attachMobileDeviceBridgeToServer(agent);
  await bridge.ensureMobileDeviceBridgeInferenceHandlers(runtime);
  agent.listen(Number(HOB_AGENT_PORT), "127.0.0.1");
  while (!bridge.getMobileDeviceBridgeStatus().connected) await pause(50);
}, { timeout: 60_000 });

// The bridge keeps its socket open.
after(() => {
  agent.close();
  sockets.forEach((socket) => socket.destroy());
});

test("a device registers what it is", async () => {
  const [device] = bridge.getMobileDeviceBridgeStatus().devices;
  assert.match(device.deviceId, /^hob-/);
  assert.equal(device.capabilities.platform, "desktop");
  assert.ok(device.capabilities.totalRamGb > 0.1 && device.capabilities.cpuCores > 0);
});

test("a model is loaded, answers, and nothing of it is stored", async () => {
  assert.equal(await generate({ prompt: "Say this: Good day." }), "Good day.");
  assert.equal(bridge.getMobileDeviceBridgeStatus().devices[0].loadedPath, MODEL);
  assert.deepEqual((await hobd("/v1/conversations")).data, []);
});

test("stop sequences, a limit and a temperature count", async () => {
  assert.equal(await generate({ prompt: "Say this: one two three", stopSequences: [" two"] }), "one");
  assert.equal(await generate({ prompt: "Say this: one two three", maxTokens: 5, temperature: 0.2 }), "one t");
});

test("prompts are answered side by side", async () => {
  const said = ["first", "second", "third"];
  const prompts = said.map((words) => generate({ prompt: `Say this: ${words}` }));
  assert.deepEqual(await Promise.all(prompts), said);
});

test("weights are freed and come back", async () => {
  await bridge.unloadMobileDeviceBridgeModel();
  while ((await hobd("/v1/status")).residency !== "unloaded") await pause(50);
  assert.equal(await generate({ prompt: "Say this: Back." }), "Back.");
});

test("an error has its reason", async () => {
  await assert.rejects(models.get("TEXT_EMBEDDING")(runtime, { text: "Hi" }), /embedding/);
});
