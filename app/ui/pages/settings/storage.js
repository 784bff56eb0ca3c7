// How long chats stay ready, and how much of the disk they may take. Both apply at once.

import { bytes, html, t, useStore } from "/lib.js";
import { keepOptions } from "/pages/memory/keeping.js";
import { Quota } from "/pages/memory/quota.js";
import { Choose } from "./setting.js";
import { changeSettings, readSettings, settingOf, settings } from "./use-settings.js";

export function Storage() {
  const { list, memory } = useStore(settings);
  if (!list) return null;
  const ready = settingOf(list, "default_ttl");
  const { disk } = memory;
  return html`
    <section class="card stack" data-test="storage">
      <h2>${t("settings.storage")}</h2>
      <${Choose}
        setting=${ready}
        value=${ready.value}
        options=${keepOptions(list.lifetimes)}
        onChange=${(value) => changeSettings({ default_ttl: value })}
        label=${t("settings.ready")}
        note=${t("settings.ready.long")}
      />
      ${disk && html`
        <div class="setting wide">
          <span class="setting-words">
            <span class="row setting-name">
              ${t("settings.disk")}
              ${!disk.quota_fixed && html`<span class="applies">${t("settings.applies.now")}</span>`}
            </span>
            <span class="note figure">${t("settings.disk.use", uses(disk))}</span>
          </span>
          <${Quota} disk=${disk} refresh=${readSettings} />
        </div>`}
    </section>`;
}

const uses = ({ bytes: used, quota_bytes: quota, free_bytes: free }) => ({
  used: bytes(used),
  quota: bytes(quota),
  free: bytes(free),
});
