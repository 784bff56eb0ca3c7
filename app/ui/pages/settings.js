// The user's preferences: appearance, the defaults of new chats and, in the app, its behaviour.

import { html, languages, preferences, shell, t, useEffect, useState, useStore } from "/lib.js";
import { Button, help, Select, toast } from "/parts.js";
import { profileChoices, status } from "/chat/chats.js";

export function Page() {
  return html`
    <${Appearance} />
    <${Answers} />
    ${shell && html`<${AppSettings} />`}
    <${About} />`;
}

function Appearance() {
  const themes = ["system", "light", "dark"].map((name) => [name, t(`settings.theme.${name}`)]);
  const system = ["system", t("settings.theme.system")];
  return html`
    <section class="card stack">
      <h2>${t("settings.look")}</h2>
      <${Setting} label=${t("settings.theme")}>
        <${Choice} name="theme" options=${themes} />
      <//>
      <${Setting} label=${t("settings.language")}>
        <${Choice} name="language" options=${[system, ...Object.entries(languages)]} />
      <//>
    </section>`;
}

function Answers() {
  const { temperature, profile, typeAhead, speaks } = useStore(preferences);
  const { profiles = [], voice } = useStore(status, ({ now }) => now) ?? {};
  const { options, chosen } = profileChoices(profiles, profile);
  const setTemperature = ({ target }) => preferences.set({ temperature: Number(target.value) });
  return html`
    <section class="card stack">
      <h2>${t("settings.answers")}</h2>
      <${Setting} label=${t("settings.temperature")} note=${t("settings.temperature.long")}>
        <span class="row">
          <input
            type="range"
            min="0"
            max="1.5"
            step="0.1"
            value=${temperature}
            onInput=${setTemperature}
          />
          <output class="figure">${temperature.toFixed(1)}</output>
        </span>
      <//>
      <${Setting} label=${t("settings.profile")}>
        <${Choice} name="profile" options=${options} value=${chosen} />
      <//>
      <${Setting} label=${t("settings.type-ahead")} note=${t("settings.type-ahead.long")}>
        <input
          type="checkbox"
          checked=${typeAhead}
          onChange=${({ target }) => preferences.set({ typeAhead: target.checked })}
          data-test="type-ahead"
        />
      <//>
      ${voice && html`
        <${Setting} label=${t("settings.speaks")} note=${t("settings.speaks.long")}>
          <input
            type="checkbox"
            checked=${speaks}
            onChange=${({ target }) => preferences.set({ speaks: target.checked })}
            data-test="speaks"
          />
        <//>`}
    </section>`;
}

function About() {
  const { now } = useStore(status);
  return html`
    <section class="card stack">
      <h2>${t("settings.about")}</h2>
      ${now ? html`<${Facts} now=${now} />` : html`<p class="note">${t("shell.starting")}</p>`}
      <div>
        <${Button} onClick=${() => help.set({ open: true })}>${t("keys.title")}<//>
      </div>
    </section>`;
}

function Facts({ now }) {
  const context = t("about.tokens", { tokens: now.context_tokens });
  return html`
    <dl class="keys">
      <dt>${t("about.version")}</dt><dd>${now.version}</dd>
      <dt>${t("about.model")}</dt><dd>${now.model}</dd>
      <dt>${t("about.fingerprint")}</dt><dd><code>${now.fingerprint}</code></dd>
      <dt>${t("about.context")}</dt><dd class="figure">${context}</dd>
    </dl>`;
}

function Choice({ name, options, value }) {
  const saved = useStore(preferences, (all) => all[name]);
  const set = (chosen) => preferences.set({ [name]: chosen });
  return html`
    <${Select} value=${value ?? saved} options=${options} onChange=${set} data-test=${`like-${name}`} />`;
}

function Setting({ label, note, children }) {
  return html`
    <label class="row apart">
      <span>
        <span>${label}</span>
        ${note && html`<br /><span class="note">${note}</span>`}
      </span>
      ${children}
    </label>`;
}

/** Settings of the desktop app; the shell stores them. */
function AppSettings() {
  const [settings, setSettings] = useState(null);
  const receive = (promise) => {
    promise.then(setSettings, (error) => toast(String(error)));
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
