import { limitWords } from "/pages/models/context.js";
import { facts, fitOf, onDevice } from "/pages/models/fit.js";
import { consequences } from "/pages/models/question.js";
import { t } from "/lib.js";
import { equal, test } from "./harness.js";

test("facts are joined, and what is unknown or usual is left out", () => {
  equal(facts({ size_bytes: 2048, quantisation: "Q4_K", memory: "plain" }), "2 KiB · Q4_K");
  equal(facts({ size_bytes: null }), "");
  equal(facts({ architecture: "lfm2", memory: "hybrid" }), "lfm2 · hybrid memory");
});

const running = { name: "old", kept: { conversations: 2, bytes: 2048 } };
const model = { name: "new", verdict: "fits", kept: null };

test("saved conversations of the running model are named", () => {
  const lines = consequences(model, running);
  const kept = t("models.ask.saved", { name: "old", n: 2, bytes: 2048 });
  equal(lines, [kept, t("models.ask.restart")]);
});

test("without saved conversations the texts are", () => {
  const lines = consequences(model, { name: "old", kept: null });
  equal(lines, [t("models.ask.text"), t("models.ask.restart")]);
});

test("short memory and embeddings are warned of", () => {
  const lines = consequences({ ...model, verdict: "too_large", pooling: "mean" }, running);
  equal(lines.slice(-2), [t("models.ask.embeds"), t("models.ask.large")]);
  equal(consequences({ ...model, verdict: "tight" }, running).at(-1), t("models.ask.tight"));
});

test("what a context takes decides whether a model fits", () => {
  const contexts = [{ tokens: 8192, kv_bytes: 10 }, { tokens: 16384, kv_bytes: 20 }];
  const estimate = { weights_bytes: 70, kv_bytes: 10 };
  const fit = (fields, ctx, free) =>
    fitOf({ estimate, contexts, ...fields }, { free_bytes: free }, ctx).verdict;
  equal([8192, 16384].map((ctx) => fit({}, ctx, 85)), ["tight", "too_large"]);
  equal(fit({}, 16384, 100), "fits");
  equal(fit({ current: true }, 16384, 30), "fits"); // Its weights are in memory already.
  equal(fit({}, 8192, null), null);
});

test("a context says why it is not larger, also where the model does not say what it was trained with", () => {
  equal(limitWords(4096, "memory", 32768), t("context.limit.memory", { trained: 32768 }));
  equal(limitWords(4096, "memory", null), t("context.limit.memory.alone"));
  equal(limitWords(8192, "trained", 4096), t("context.shared", { tokens: 4096 }));
  equal(limitWords(8192, "trained", 8192), t("context.limit.trained"));
  equal(limitWords(8192, "unknown", null), t("context.limit.unknown"));
  equal(limitWords(8192, "set", 32768), null);
});

test("a device holds all of a model or a part, and its memory counts", () => {
  const list = {
    devices: [{ name: "CUDA0" }, { name: "CUDA1" }, { name: "Vulkan0" }],
    used_devices: ["CUDA0", "CUDA1"],
    device_free_bytes: 2048,
    gpu_layers: null,
  };
  const device = "CUDA0, CUDA1";
  equal(onDevice(2048, list), t("models.device.all", { device }));
  equal(onDevice(2049, list), t("models.device.part", { device, free: 2048 }));
  equal(onDevice(2049, list).includes("2 KiB"), true);
  equal(onDevice(2048, { ...list, gpu_layers: 12 }), t("models.device.layers", { n: 12, device }));
  const large = { estimate: { weights_bytes: 90, kv_bytes: 10 } };
  equal(fitOf(large, { free_bytes: 60 }).verdict, "too_large");
  equal(fitOf(large, { free_bytes: 60, device_free_bytes: 60 }).verdict, "fits");
});

test("a model that a flag chooses is overridden for this run", () => {
  const lines = consequences(model, running, "flag --model");
  equal(lines.at(-1), t("models.ask.once", { by: "flag --model" }));
});
