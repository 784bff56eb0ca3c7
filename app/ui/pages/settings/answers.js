// The defaults of new chats, and what the page does while one types and speaks.

import { html, preferences, t, useStore } from "/lib.js";
import { profileChoices, status } from "/chat/chats.js";
import { Choice } from "./appearance.js";
import { Setting } from "./setting.js";

export function Answers() {
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
