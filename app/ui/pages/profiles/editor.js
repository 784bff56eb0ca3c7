// One profile: what it says now, what a change would compute, and saving it.

import { address, api, go, html, t, useEffect, useMemo, useState } from "/lib.js";
import { ask, Button, CLASSES, Icon, Menu, say, Select } from "/parts.js";
import { look } from "/chat/chats.js";
import { Cards } from "./cards.js";
import { differs, draftOf, forget, keep, read, sent } from "./draft.js";
import { Warmth } from "./warmth.js";

const CHECK_AFTER_MS = 350;
const WARM_EVERY_MS = 700;

export function Editor({ name }) {
  const [profile, setProfile] = useState(null);
  const [draft, setDraft] = useState(draftOf(name) ?? null);
  const [error, setError] = useState(null);
  const [saving, setSaving] = useState(false);
  const path = `/v1/profiles/${encodeURIComponent(name)}`;
  const take = (told) => {
    setProfile(told);
    setError(null);
    // What has not changed stays: somebody may be about to write.
    if (told.segments && !draftOf(name)) setDraft((old) => (old?.revision === told.revision ? old : read(told)));
  };
  const load = () => api.get(path).then(take, (error) => (draftOf(name) ? null : setError(error)));
  // One that was never saved is known to nobody else.
  useEffect(() => void (draftOf(name)?.revision === null || load()), [name]);
  // A prefix on its way becomes warm by itself; right after a change the state may still be that of the one before.
  const isWarm = ({ state, segments }) => state === "warm" && !segments?.some(({ in_prefix: counts, warm }) => counts && !warm);
  const onItsWay = profile && !profile.error && !isWarm(profile);
  useEffect(() => {
    if (!onItsWay) return;
    const timer = setInterval(load, WARM_EVERY_MS);
    return () => clearInterval(timer);
  }, [onItsWay, name]);
  const dirty = Boolean(draft) && differs(draft, profile);
  const { figures, problem } = useFigures(draft, dirty, profile);
  if (error) return html`<${Back} /><p class="error" role="alert">${error.message}</p>`;
  if (profile?.segments === null && !draftOf(name)) return html`<${Back} /><${Unreadable} profile=${profile} />`;
  if (!draft) return html`<p class="note" role="status">${t("profiles.reading")}</p>`;

  const change = (fields, of = draft) => {
    const next = { ...of, ...fields };
    keep(name, next);
    setDraft(next);
  };
  const segments = (next) => change({ segments: next });
  const discard = () => {
    forget(name);
    if (profile?.segments) setDraft(read(profile));
    else go("profiles");
  };
  const save = async () => {
    setSaving(true);
    try {
      const saved = await api.put(path, { ...sent(draft), name: undefined });
      const now = draftOf(name);
      setProfile(saved);
      if (now === draft) {
        forget(name);
        setDraft(read(saved));
      } else change({ revision: saved.revision }, now); // Somebody went on writing.
      say(t("profile.saved", { name }));
      look();
    } catch (error) {
      if (error.code === "profile_changed") await changedElsewhere(load, discard);
      else say(error.message);
    } finally {
      setSaving(false);
    }
  };
  const remove = async () => {
    if (!(await ask({ title: t("profile.delete.ask", { name }), text: t("profile.delete.long"), yes: t("profile.delete"), danger: true }))) return;
    try {
      if (profile) await api.del(path);
      forget(name);
      look();
      go("profiles");
    } catch (error) {
      say(error.message);
    }
  };
  const total = figures.whole;
  return html`<${Back} />
    <div class="profile-head row apart">
      <div class="grow"><h2>${name}</h2>
        <p class="note figure row">${total?.tokens != null && html`<span data-test="prefix-figures">${t("profile.prefix", { tokens: total.tokens, bytes: total.kv_bytes ?? 0 })}</span>`}
          ${profile && !dirty && html`<${Warmth} profile=${profile} />`}</p></div>
      <div class="row">
        <label class="row note">${t("profile.ttl")}<${Select} value=${draft.ttl} options=${CLASSES.map((name) => [name, t(`profile.ttl.${name}`)])} onChange=${(ttl) => change({ ttl })} /></label>
        <${Menu} label=${t("profile.more")} items=${[{ icon: "trash", label: t("profile.delete"), danger: true, act: remove }]} />
      </div>
    </div>
    ${profile?.error && !dirty && html`<p class="card error row" role="alert"><${Icon} name="warning" /><span class="grow">${profile.error}</span></p>`}
    <${Cards} draft=${draft} figures=${figures} problem=${problem} segments=${segments} />
    <div class="profile-foot row apart" data-test="profile-foot">
      <span class="grow note" role="status">${problem && problem.at == null ? html`<span class="error">${problem.message}</span>` : dirty && total ? t("profile.cost", { n: total.computed_tokens, tokens: total.tokens }) : ""}</span>
      ${dirty && html`<${Button} onClick=${discard}>${t("profile.discard")}<//>`}
      <${Button} kind="primary" disabled=${!dirty || saving || Boolean(problem)} onClick=${save} data-test="save-profile">${t(saving ? "profile.saving" : "save")}<//>
    </div>`;
}

const Back = () => html`<a class="back" href=${address("profiles")}><${Icon} name="left" small />${t("profile.all")}</a>`;

function Unreadable({ profile }) {
  return html`<section class="card stack"><h2>${profile.name}</h2><p class="error">${profile.error}</p>
    <p class="note">${t("profile.unreadable")} <code>${profile.path}</code></p></section>`;
}

async function changedElsewhere(load, discard) {
  const yes = t("profile.changed.read");
  if (!(await ask({ title: t("profile.changed"), text: t("profile.changed.long"), yes, danger: true }))) return;
  discard();
  await load();
}

/** What the draft costs, asked a moment after it changed; until then what was known of each segment. */
function useFigures(draft, dirty, profile) {
  const [known, setKnown] = useState({ byId: new Map(), whole: null });
  const [problem, setProblem] = useState(null);
  const text = useMemo(() => (draft && dirty ? JSON.stringify(sent(draft)) : null), [draft, dirty]);
  const learn = (told, segments) => {
    setProblem(null);
    setKnown({ whole: told, byId: new Map(segments.map(({ id }, at) => [id, told.segments[at]])) });
  };
  useEffect(() => {
    if (draft && profile?.segments && !dirty) learn(profile, draft.segments);
  }, [profile, dirty, draft?.revision]);
  useEffect(() => {
    if (!text) return;
    // What is not written yet is no mistake.
    const empty = draft.segments.findIndex(({ source, content }) => source === "text" && !content.trim());
    if (empty >= 0) return setProblem({ message: t("profile.empty"), at: empty, isMild: true });
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const told = await api.post("/v1/profiles/check", { ...JSON.parse(text), revision: undefined }, { signal: stop.signal });
        if (!stop.signal.aborted) learn(told, draft.segments);
      } catch (error) {
        if (stop.signal.aborted) return;
        const at = /^segments\[(\d+)\]/.exec(error.param ?? "");
        setProblem({ message: error.message, at: at ? Number(at[1]) : null });
      }
    }, CHECK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return { figures: known, problem };
}
