// Theme and language.

import { html, languages, preferences, t, useStore } from "/lib.js";
import { Select } from "/parts.js";
import { Setting } from "./setting.js";

export function Appearance() {
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

export function Choice({ name, options, value }) {
  const saved = useStore(preferences, (all) => all[name]);
  const set = (chosen) => preferences.set({ [name]: chosen });
  return html`
    <${Select} value=${value ?? saved} options=${options} onChange=${set} data-test=${`like-${name}`} />`;
}
