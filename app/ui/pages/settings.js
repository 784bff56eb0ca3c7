// What somebody likes: how the page looks, how answers are asked for, and, in the app, how it behaves.

import { html, languages, preferences, shell, t, useEffect, useState, useStore } from "/lib.js";
import { Button, help, say, Select } from "/parts.js";
import { status } from "/chat/chats.js";

export function Page() {
  const likes = useStore(preferences);
  const { now } = useStore(status);
  const choice = (name, options) => html`<${Select} value=${likes[name]} options=${options} onChange=${(value) => preferences.set({ [name]: value })} data-test=${`like-${name}`} />`;
  const profiles = (now?.profiles ?? []).map(({ name }) => [name, name]);
  return html`
    <section class="card stack"><h2>${t("settings.look")}</h2>
      <${Setting} label=${t("settings.theme")}>${choice("theme", ["system", "light", "dark"].map((name) => [name, t(`settings.theme.${name}`)]))}<//>
      <${Setting} label=${t("settings.language")}>${choice("language", [["system", t("settings.theme.system")], ...Object.entries(languages)])}<//>
    </section>
    <section class="card stack"><h2>${t("settings.answers")}</h2>
      <${Setting} label=${t("settings.temperature")} note=${t("settings.temperature.long")}>
        <span class="row"><input type="range" min="0" max="1.5" step="0.1" value=${likes.temperature} onInput=${(event) => preferences.set({ temperature: Number(event.target.value) })} />
        <output class="figure">${likes.temperature.toFixed(1)}</output></span><//>
      <${Setting} label=${t("settings.profile")}>${choice("profile", [["", t("composer.profile.none")], ...profiles])}<//>
    </section>
    ${shell && html`<${AppSettings} />`}
    <section class="card stack"><h2>${t("settings.about")}</h2>
      ${now ? html`<dl class="keys">
        <dt>${t("about.version")}</dt><dd>${now.version}</dd>
        <dt>${t("about.model")}</dt><dd>${now.model}</dd>
        <dt>${t("about.fingerprint")}</dt><dd><code>${now.fingerprint}</code></dd>
        <dt>${t("about.context")}</dt><dd class="figure">${t("about.tokens", { tokens: now.context_tokens })}</dd>
      </dl>` : html`<p class="note">${t("shell.starting")}</p>`}
      <div><${Button} onClick=${() => help.set({ open: true })}>${t("keys.title")}<//></div>
    </section>`;
}

function Setting({ label, note, children }) {
  return html`<label class="row apart"><span><span>${label}</span>${note && html`<br /><span class="note">${note}</span>`}</span>${children}</label>`;
}

/** Settings of the desktop app, which the shell keeps. */
function AppSettings() {
  const [settings, setSettings] = useState(null);
  useEffect(() => void shell.invoke("settings_get").then(setSettings, (error) => say(String(error))), []);
  const set = (settings) => void shell.invoke("settings_set", { settings }).then(setSettings, (error) => say(String(error)));
  const onOff = (name) => html`<input type="checkbox" checked=${settings[name]} onChange=${(event) => set({ [name]: event.target.checked })} />`;
  return settings && html`<section class="card stack"><h2>${t("settings.app")}</h2>
    <${Setting} label=${t("settings.close")}><${Select} value=${settings.close} options=${["quit", "tray"].map((name) => [name, t(`settings.close.${name}`), name === "tray" && !settings.has_tray])} onChange=${(close) => set({ close })} /><//>
    <${Setting} label=${t("settings.autostart")}>${onOff("autostart")}<//>
    <${Setting} label=${t("settings.notifications")}>${onOff("notifications")}<//>
  </section>`;
}
