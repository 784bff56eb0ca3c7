// The defaults of new chats, and what the page does while one types and speaks.

import { html, preferences, t, useStore } from "/lib.js";
import { status } from "/chat/chats.js";
import { profileChoices } from "/chat/profile-choices.js";
import { Choice } from "./appearance.js";
import { Setting } from "./setting.js";

export function Answers() {
  const { profile, typeAhead, speaks } = useStore(preferences);
  const { profiles = [], voice } = useStore(status, ({ now }) => now) ?? {};
  const { options, chosen } = profileChoices(profiles, profile);
  return html`
    <section class="card stack">
      <h2>${t("settings.answers")}</h2>
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
