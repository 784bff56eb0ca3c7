// The editor of one profile: header, segments, and what a save would compute.

import { address, api, html, shownName, t, useEffect, useState, useStore } from "/lib.js";
import { Button, Icon, Menu, Select } from "/parts.js";
import { status } from "/chat/chats.js";
import { keepOptions } from "/pages/memory/keeping.js";
import { Cards } from "./cards.js";
import { useFigures } from "./use-figures.js";
import { useProfile } from "./use-profile.js";
import { Warmth } from "./warmth.js";

const DEFAULT_LIFETIMES = { short: 300, long: 3600, extended: 86_400, permanent: null };

export function Editor({ name }) {
  const editing = useProfile(name);
  const { profile, draft, error, isDirty } = editing;
  const { figures, problem } = useFigures(draft, isDirty, profile);
  if (error) return html`<${Back} /><p class="error" role="alert">${error.message}</p>`;
  if (editing.isUnreadable) return html`<${Back} /><${Unreadable} profile=${profile} />`;
  if (!draft) return html`<p class="note" role="status">${t("profiles.reading")}</p>`;
  return html`
    <${Back} />
    <${Header} name=${name} editing=${editing} whole=${figures.whole} />
    ${profile?.error && !isDirty && html`
      <p class="card error row" role="alert">
        <${Icon} name="warning" /><span class="grow">${profile.error}</span>
      </p>`}
    <${Cards}
      segments=${draft.segments}
      figures=${figures}
      problem=${problem}
      onChange=${(segments) => editing.edit({ segments })}
    />
    <${Footer} editing=${editing} whole=${figures.whole} problem=${problem} />`;
}

function Back() {
  return html`
    <a class="back" href=${address("profiles")}>
      <${Icon} name="left" small />${t("profile.all")}
    </a>`;
}

function Unreadable({ profile }) {
  return html`
    <section class="card stack">
      <h2>${profile.name}</h2>
      <p class="error">${profile.error}</p>
      <p class="note">${t("profile.unreadable")} <code>${profile.path}</code></p>
    </section>`;
}

/** Seconds by TTL class: the daemon's, and its defaults until they are read. An engine at another address has none. */
function useLifetimes() {
  const [lifetimes, setLifetimes] = useState(DEFAULT_LIFETIMES);
  const hasOwn = useStore(status, ({ now }) => Boolean(now && !now.upstream));
  useEffect(() => {
    if (!hasOwn) return;
    api.get("/v1/settings").then((list) => setLifetimes(list.lifetimes ?? DEFAULT_LIFETIMES), () => {});
  }, [hasOwn]);
  return lifetimes;
}

function Header({ name, editing, whole }) {
  const { profile, draft, isDirty, edit, remove } = editing;
  const lifetimes = useLifetimes();
  const deletion = { icon: "trash", label: t("profile.delete"), danger: true, act: remove };
  return html`
    <div class="profile-head row apart">
      <div class="grow">
        <h2>${shownName(name)}</h2>
        <p class="note figure row">
          ${whole?.tokens != null && html`
            <span data-test="prefix-figures">
              ${t("profile.prefix", { tokens: whole.tokens, bytes: whole.kv_bytes ?? 0 })}
            </span>`}
          ${profile && !isDirty && html`<${Warmth} profile=${profile} />`}
        </p>
      </div>
      <div class="row">
        <label class="row note">
          ${t("profile.ttl")}
          <${Select} value=${draft.ttl} options=${keepOptions(lifetimes)} onChange=${(ttl) => edit({ ttl })} />
        </label>
        <${Menu} label=${t("profile.more")} items=${[deletion]} />
      </div>
    </div>`;
}

function Footer({ editing, whole, problem }) {
  const { isDirty, isSaving, discard, save } = editing;
  return html`
    <div class="profile-foot row apart" data-test="profile-foot">
      <span class="grow note" role="status">
        <${Cost} isDirty=${isDirty} whole=${whole} problem=${problem} />
      </span>
      ${isDirty && html`<${Button} onClick=${discard}>${t("profile.discard")}<//>`}
      <${Button}
        kind="primary"
        disabled=${!isDirty || isSaving || Boolean(problem)}
        onClick=${save}
        data-test="save-profile"
      >
        ${t(isSaving ? "profile.saving" : "save")}
      <//>
    </div>`;
}

function Cost({ isDirty, whole, problem }) {
  if (problem && problem.at == null) return html`<span class="error">${problem.message}</span>`;
  if (!isDirty || !whole) return null;
  return t("profile.cost", { n: whole.computed_tokens, tokens: whole.tokens });
}
