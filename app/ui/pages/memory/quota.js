// The disk quota in words, and the form that changes it.

import { api, html, t, useState } from "/lib.js";
import { Button, orToast, toast, useInPlace } from "/parts.js";

const GIB = 2 ** 30;
const MAX_GIB = 1_000_000;

/** What the quota means and where it comes from. Pure but for the language. */
export function quotaInWords({ quota_bytes, quota_set_bytes, quota_origin, quota_fixed, free_bytes }) {
  if (quota_fixed) return t("quota.fixed", { bytes: quota_bytes, origin: quota_origin });
  if (quota_set_bytes != null) return t("quota.set", { bytes: quota_bytes });
  return quota_bytes > 0
    ? t("quota.default", { bytes: quota_bytes })
    : t("quota.none", { bytes: free_bytes });
}

/** `refresh`: reads the disk again after a change. */
export function Quota({ disk, refresh }) {
  // as it is typed: "1." is no number yet, and must stay in the field
  const [gib, setGib] = useState(null);
  const isOpen = gib !== null;
  const frame = useInPlace(isOpen, "button");
  const save = async (bytes) => {
    const done = await orToast(api.put("/v1/slots/quota", { bytes }));
    if (!done) return;
    setGib(null);
    toast(t("quota.saved", { bytes: done.quota_bytes }));
    await refresh();
  };
  const submit = (event) => {
    event.preventDefault();
    save(Math.round(gib * GIB));
  };
  return html`
    <div class="stack" ref=${frame} data-test="quota">
      <p class="note" data-test="quota-words">${t("quota.about")} ${quotaInWords(disk)}</p>
      ${!disk.quota_fixed && !isOpen && html`
        <div class="row">
          <${Button} onClick=${() => setGib(shownGib(disk.quota_bytes))} data-test="quota-change">
            ${t("quota.change")}
          <//>
          ${disk.quota_set_bytes != null && html`
            <${Button} onClick=${() => save(null)} data-test="quota-default">
              ${t("quota.use-default")}
            <//>`}
        </div>`}
      ${isOpen && html`
        <form class="row" onSubmit=${submit}>
          <label class="row">
            <span>${t("quota.label")}</span>
            <input
              class="input figure narrow"
              type="number"
              min="0.1"
              max=${MAX_GIB}
              step="0.1"
              required
              value=${gib}
              onInput=${(event) => setGib(event.target.value)}
              data-test="quota-gib"
            />
            <span>GiB</span>
          </label>
          <button class="button" data-test="quota-save">${t("quota.save")}</button>
          <${Button} onClick=${() => setGib(null)}>${t("cancel")}<//>
        </form>`}
    </div>`;
}

/** With one digit behind the point, as the form takes it; 0.1 at least. */
const shownGib = (bytes) => Math.max(1, Math.round((bytes / GIB) * 10)) / 10;
