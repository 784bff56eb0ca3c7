// How much of the disk quota the saved chats use, in one line, and how to change it.

import { bytes, html, t } from "/lib.js";
import { refresh } from "./live.js";
import { Quota } from "./quota.js";

/** `disk`: as in `/v1/memory`. */
export function Budget({ disk }) {
  const { bytes: used, quota_bytes: quota, free_bytes: free } = disk;
  const words = t("budget.used", { used, quota: quota ?? used });
  return html`
    <div class="stack budget" data-test="budget">
      <div class="row apart">
        <span>${words}</span><span class="note">${t("memory.disk.free", { bytes: free })}</span>
      </div>
      <progress max=${Math.max(1, quota ?? used)} value=${used} aria-label=${words} title=${bytes(used)}></progress>
      <${Quota} disk=${disk} refresh=${refresh} />
    </div>`;
}
