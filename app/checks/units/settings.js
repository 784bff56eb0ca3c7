import { t } from "/lib.js";
import { deviceWords } from "/pages/settings/engine.js";
import { equal, test } from "./harness.js";

const card = { name: "CUDA0", description: "A card", free_bytes: 1024, total_bytes: 2048 };
const free = t("settings.device.free", { device: "A card", free: 1024, total: 2048 });

test("without a device the processor computes", () => {
  equal(deviceWords({}), t("settings.gpu"));
  equal(deviceWords({ devices: [], offload: null }), t("settings.gpu"));
});

test("a device without layers is named as unused, with its memory", () => {
  equal(deviceWords({ devices: [card] }), `${t("settings.device.unused")} ${free}`);
});

test("the layers on a device are counted, and each device has its memory", () => {
  const offload = { layers: 20, all_layers: 29, kv: true };
  const layers = t("settings.device.layers", { layers: 20, all: 29 });
  equal(layers.includes("20") && layers.includes("29"), true);
  const unnamed = { ...card, description: "" };
  const named = t("settings.device.free", { device: "CUDA0", free: 1024, total: 2048 });
  equal(deviceWords({ devices: [card, unnamed], offload }), `${layers} ${free} ${named}`);
  const elsewhere = t("settings.device.kv-elsewhere");
  equal(deviceWords({ devices: [card], offload: { ...offload, kv: false } }), `${layers} ${elsewhere} ${free}`);
});

test("where layers were divided between devices, each one's are counted", () => {
  const offload = { layers: 29, all_layers: 29, devices: ["CUDA0", "CUDA1"], split: [22, 7], kv: true };
  const words = deviceWords({ devices: [card], offload });
  const part = (n, device) => t("settings.device.part", { n, device });
  const divided = t("settings.device.split", { parts: `${part(22, "CUDA0")}, ${part(7, "CUDA1")}` });
  equal(words, `${t("settings.device.layers", { layers: 29, all: 29 })} ${divided} ${free}`);
  const alone = { ...offload, devices: ["CUDA0"], split: [29] };
  equal(deviceWords({ devices: [card], offload: alone }).includes("CUDA0"), false);
  const unknown = deviceWords({ devices: [card], offload: { ...offload, split: [] } });
  equal(unknown.includes("CUDA1"), false);
});
