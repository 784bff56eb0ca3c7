// Which model runs, and the others of this machine. Choosing one asks what the Models page asks.

import { bytes, go, html, importModule, t, useState, useStore, withTexts } from "/lib.js";
import { Menu, orToast } from "/parts.js";
import { status } from "./chats.js";
import { loadModels } from "./models.js";

export function ModelPicker() {
  const name = useStore(status, ({ now, switchingTo }) => switchingTo ?? now?.model);
  const isElsewhere = useStore(status, ({ now }) => Boolean(now?.upstream));
  const [list, setList] = useState(null);
  if (!name) return null;
  // Hob chooses among the models of this machine.
  if (isElsewhere) {
    return html`
      <span class="state menu-frame" title=${name} data-test="model"><span class="fact-text">${name}</span></span>`;
  }
  const load = async () => setList((await orToast(loadModels())) ?? null);
  return html`
    <${Menu}
      text=${name}
      label=${t("model.label", { name })}
      items=${list ? itemsOf(list) : [{ label: t("models.looking"), disabled: true }]}
      onOpen=${load}
      test="model"
    />`;
}

function itemsOf(list) {
  const usable = list.data.filter(({ pooling }) => !pooling);
  return [
    list.fixed && { label: t("models.once", { by: list.fixed }), disabled: true },
    ...usable.map((model) => ({
      icon: model.current ? "check" : "models",
      label: model.name,
      note: noteOf(model),
      current: Boolean(model.current),
      act: () => !model.current && switchTo(model, list),
    })),
    { icon: "settings", label: t("model.all"), act: () => go("models") },
  ];
}

function noteOf({ size_bytes: size, verdict, current }) {
  const fit = verdict && !current && t(`model.${verdict}`);
  return [size != null && bytes(size), fit].filter(Boolean).join(" · ");
}

async function switchTo(model, list) {
  const module = await orToast(withTexts(importModule("/pages/models/question.js")));
  await module?.askToSwitch(model, list, model);
}
