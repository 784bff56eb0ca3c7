// Settings of the desktop app; the shell stores them.

import { html, shell, t, useEffect, useState } from "/lib.js";
import { Select, toast } from "/parts.js";
import { Setting } from "./setting.js";

export function AppSettings() {
  const [settings, setSettings] = useState(null);
  const receive = (promise) => {
    promise.then(setSettings, (error) => {
      toast(String(error));
      // The control shows again what is stored.
      setSettings((now) => now && { ...now });
    });
  };
  useEffect(() => receive(shell.invoke("settings_get")), []);
  if (!settings) return null;
  const set = (fields) => receive(shell.invoke("settings_set", { settings: fields }));
  const onClose = ["quit", "tray"].map((name) => {
    const isDisabled = name === "tray" && !settings.has_tray;
    return [name, t(`settings.close.${name}`), isDisabled];
  });
  const checkbox = (name) => html`
    <input
      type="checkbox"
      checked=${settings[name]}
      onChange=${(event) => set({ [name]: event.target.checked })}
      data-test=${`set-${name}`}
    />`;
  return html`
    <section class="card stack">
      <h2>${t("settings.app")}</h2>
      <${Setting} label=${t("settings.close")}>
        <${Select} value=${settings.close} options=${onClose} onChange=${(close) => set({ close })} />
      <//>
      <${Setting} label=${t("settings.autostart")}>${checkbox("autostart")}<//>
      <${Setting} label=${t("settings.notifications")}>${checkbox("notifications")}<//>
    </section>`;
}
