// What the model is loaded with. Changes are collected: they apply when the model is loaded again.

import { address, bytes, count, html, t, useState, useStore } from "/lib.js";
import { Button, Icon, useNextFocus } from "/parts.js";
import { status } from "/chat/chats.js";
import { useReading } from "/chat/daemon.js";
import { ContextSlider, limitWords } from "/pages/models/context.js";
import { Choose, Setting } from "./setting.js";
import { changeSettings, readSettings, settingOf, settings } from "./use-settings.js";

/** The context that Hob chooses. */
const AUTO = "auto";
const GIB = 2 ** 30;
const MEMORY_STEPS = [1, 2, 4, 8, 16, 32];
const MAX_CHATS = 8;
const UNLOAD_STEPS = ["15m", "1h", "4h"];

export function Engine() {
  const { list, models, memory, error } = useStore(settings);
  const { now, switchingTo } = useStore(status);
  const [changes, setChanges] = useState({});
  const isElsewhere = Boolean(now?.upstream);
  // The bar leaves with the changes that its button discards.
  useNextFocus(() => document.querySelector("[data-test=engine] a"));
  useReading(() => {
    if (!isElsewhere) readSettings();
  }, [isElsewhere]);
  if (isElsewhere) return html`<${Elsewhere} now=${now} />`;
  if (!list) return html`<${Waiting} error=${error} />`;
  const row = (key) => settingOf(list, key);
  const valueOf = (key) => changes[key] ?? row(key).value;
  const change = (key) => (value) => {
    const { [key]: _, ...others } = changes;
    setChanges(value === row(key).value ? others : { ...others, [key]: value });
  };
  const props = (key) => ({ setting: row(key), value: valueOf(key), onChange: change(key) });
  const apply = async () => {
    if (await changeSettings(changes)) setChanges({});
  };
  return html`
    <section class="card stack" data-test="engine" aria-busy=${Boolean(switchingTo)}>
      <h2>${t("settings.engine")}</h2>
      <${Model} models=${models} />
      <${Context} ...${props("ctx")} models=${models} chats=${valueOf("slots")} />
      <${Chats} ...${props("slots")} />
      <${Memory} ...${props("memory_budget_bytes")} memory=${memory} />
      <${Threads} ...${props("threads")} cores=${list.cores} />
      <${Unload} ...${props("unload_after")} models=${models} />
      ${Object.keys(changes).length > 0 && html`
        <div class="settings-apply row apart" data-test="settings-apply">
          <span class="note grow" role="status">${t("settings.reload")}</span>
          <${Button} onClick=${() => setChanges({})}>${t("settings.discard")}<//>
          <${Button} kind="primary" disabled=${switchingTo} onClick=${apply} data-test="settings-save">
            ${t("settings.load")}
          <//>
        </div>`}
    </section>`;
}

const Waiting = ({ error }) => html`
  <section class="card stack">
    <h2>${t("settings.engine")}</h2>
    <p class=${error ? "error" : "note"} role="status">
      ${error ? error.message : t("settings.reading")}
    </p>
  </section>`;

/** The daemon loads no model: an engine at another address answers. */
const Elsewhere = ({ now: { model, upstream } }) => html`
  <section class="card stack" data-test="engine">
    <h2>${t("settings.engine")}</h2>
    ${upstream.error
      ? html`<p class="error" role="status">${upstream.error}</p>`
      : html`<p>${model}</p>`}
    <p class="note">${t("settings.elsewhere", { url: upstream.url })}</p>
  </section>`;

function Model({ models }) {
  const running = models.data.find(({ current }) => current);
  const weights = running?.estimate?.weights_bytes;
  return html`
    <div class="setting">
      <span class="setting-words">
        <span class="setting-name">${t("settings.model")}</span>
        <span class="note">
          ${running?.name}
          ${weights != null && ` · ${t("settings.model.takes", { weights })}`}
          ${running?.source === "bundled" && ` · ${t("settings.model.demo")}`}
        </span>
        <span class="note">
          <${Icon} name="memory" small /> ${deviceWords(models)}
        </span>
      </span>
      <a class="button" href=${address("models")}>${t("settings.model.choose")}</a>
    </div>`;
}

/** What computes the model, and the memory of the devices, in words. */
export function deviceWords({ devices = [], offload }) {
  const free = devices.map((device) => t("settings.device.free", {
    device: device.description || device.name,
    free: device.free_bytes,
    total: device.total_bytes,
  }));
  if (!devices.length) return t("settings.gpu");
  if (!offload) return [t("settings.device.unused"), ...free].join(" ");
  const { layers, all_layers: all, devices: names = [], split = [], kv } = offload;
  const parts = names.map((device, at) => t("settings.device.part", { n: split[at] ?? 0, device })).join(", ");
  const divided = split.length > 1 ? [t("settings.device.split", { parts })] : [];
  const where = kv ? [] : [t("settings.device.kv-elsewhere")];
  return [t("settings.device.layers", { layers, all }), ...divided, ...where, ...free].join(" ");
}

function Context({ setting, value, onChange, models, chats }) {
  const running = models.data.find(({ current }) => current);
  const contexts = running?.contexts ?? [];
  const trained = running?.trained_context;
  const isAuto = value === AUTO;
  const { tokens, limit } = (isAuto ? running?.auto : { tokens: value }) ?? {};
  const words = [isAuto && t("settings.context.auto"), limitWords(tokens, limit, trained)].filter(Boolean);
  return html`
    <${Setting}
      label=${t("settings.context")}
      note=${t("settings.context.long", { n: chats })}
      applies=${setting.applies}
      fixed=${setting.fixed}
      wide
    >
      ${tokens && html`
        <${ContextSlider}
          contexts=${contexts}
          value=${tokens}
          disabled=${Boolean(setting.fixed)}
          onChange=${onChange}
        />`}
      <span class="row apart">
        <span class="note grow">${words.join(" ")}</span>
        ${!isAuto && !setting.fixed && html`
          <${Button} onClick=${() => onChange(AUTO)}>${t("settings.context.choose")}<//>`}
      </span>
    <//>`;
}

function Chats(rest) {
  const options = Array.from({ length: MAX_CHATS }, (_, at) => [at + 1, count(at + 1)]);
  const note = t("settings.chats.long", { n: rest.value });
  return html`<${Choose} ...${rest} options=${options} label=${t("settings.chats")} note=${note} />`;
}

function Memory({ memory, ...rest }) {
  const total = memory.machine?.total_bytes;
  const steps = MEMORY_STEPS.map((gib) => gib * GIB).filter((size) => !total || size <= total / 2);
  const automatic = total ? t("settings.memory.auto", { size: total / 8 }) : t("settings.auto");
  const options = [[0, automatic], ...steps.map((size) => [size, bytes(size)])];
  const free = memory.machine?.available_bytes;
  const note = `${t("settings.memory.long")} ${free ? t("settings.memory.free", { free }) : ""}`;
  return html`<${Choose} ...${rest} options=${options} format=${bytes} label=${t("settings.memory")} note=${note} />`;
}

function Threads({ cores, ...rest }) {
  const options = Array.from({ length: cores }, (_, at) => [at + 1, count(at + 1)]);
  const all = [[0, t("settings.auto")], ...options];
  const note = t("settings.threads.long", { n: cores });
  return html`<${Choose} ...${rest} options=${all} label=${t("settings.threads")} note=${note} />`;
}

/** The daemon has seconds; the file and the choices have what one writes. */
function Unload({ setting, value, models, ...rest }) {
  const running = models.data.find(({ current }) => current);
  const { weights_bytes: weights = 0, kv_bytes: kv = 0 } = running?.estimate ?? {};
  const steps = UNLOAD_STEPS.map((step) => [step, t(`settings.unload.${step}`)]);
  const written = value === setting.value ? setting.written : value;
  return html`
    <${Choose}
      ...${rest}
      setting=${setting}
      value=${written}
      options=${[["0", t("settings.unload.never")], ...steps]}
      label=${t("settings.unload")}
      note=${weights ? t("settings.unload.long", { size: weights + kv }) : t("settings.unload.short")}
    />`;
}
