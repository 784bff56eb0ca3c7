// A profile, its draft, and what is done with them. An unsaved draft outlives its editor, and a reload.

import { api, every, go, shownName, t, useEffect, useRef, useState } from "/lib.js";
import { ask, toast } from "/parts.js";
import { refreshStatus } from "/chat/chats.js";
import { useReading } from "/chat/daemon.js";
import { differs, draftOf, newDraft, requestOf } from "./draft.js";
import { drafts } from "./drafts.js";

const WARM_POLL_MS = 700;

export const createDraft = (name) => drafts.set(name, newDraft(name));

export function useProfile(name) {
  const [profile, setProfile] = useState(null);
  const [draft, setDraft] = useState(drafts.get(name));
  const [error, setError] = useState(null);
  const [isSaving, setSaving] = useState(false);
  const path = `/v1/profiles/${encodeURIComponent(name)}`;
  const saves = useRef(0);

  const load = async () => {
    const before = saves.current;
    try {
      const loaded = await api.get(path);
      // It is older than what was saved meanwhile.
      if (saves.current !== before) return;
      setProfile(loaded);
      setError(null);
      if (!loaded.segments || drafts.get(name)) return;
      // An unchanged revision keeps its cards, so the user's focus stays where it is.
      setDraft((old) => (old?.revision === loaded.revision ? old : draftOf(loaded)));
    } catch (error) {
      if (!drafts.get(name)) setError(error);
    }
  };
  useReading(() => {
    const isUnsaved = drafts.get(name)?.revision === null;
    if (!isUnsaved) load();
  });

  const isWarming = profile && !profile.error && !isWarm(profile);
  useEffect(() => {
    if (!isWarming) return undefined;
    return every(WARM_POLL_MS, load);
  }, [isWarming, name]);

  const edit = (fields, from = draft) => {
    const next = { ...from, ...fields };
    drafts.set(name, next);
    setDraft(next);
  };
  const discard = () => {
    drafts.set(name, null);
    if (profile?.segments) setDraft(draftOf(profile));
    else go("profiles");
  };
  const save = async () => {
    setSaving(true);
    try {
      const saved = await api.put(path, { ...requestOf(draft), name: undefined });
      saves.current += 1;
      setProfile(saved);
      const latest = drafts.get(name);
      if (latest === draft) {
        drafts.set(name, null);
        setDraft(draftOf(saved));
      } else {
        // It was edited while it was saved.
        edit({ revision: saved.revision }, latest);
      }
      toast(t("profile.saved", { name: shownName(name) }));
      refreshStatus();
    } catch (error) {
      if (error.code !== "profile_changed") toast(error.message);
      else if (await askToReload()) {
        discard();
        await load();
      }
    } finally {
      setSaving(false);
    }
  };
  const remove = async () => {
    if (!(await askToDelete(name))) return;
    try {
      if (profile) await api.del(path);
      drafts.set(name, null);
      refreshStatus();
      go("profiles");
    } catch (error) {
      toast(error.message);
    }
  };

  const isDirty = Boolean(draft) && differs(draft, profile);
  const isUnreadable = profile?.segments === null && !drafts.get(name);
  return { profile, draft, error, isUnreadable, isDirty, isSaving, edit, discard, save, remove };
}

/** Right after a change `state` may still be that of the prefix before: the segments decide. */
function isWarm({ state, segments }) {
  const hasCold = segments?.some((segment) => segment.in_prefix && !segment.warm);
  return state === "warm" && !hasCold;
}

const askToReload = () => ask({
  title: t("profile.changed"),
  text: t("profile.changed.long"),
  yes: t("profile.changed.read"),
  danger: true,
});

const askToDelete = (name) => ask({
  title: t("profile.delete.ask", { name: shownName(name) }),
  text: t("profile.delete.long"),
  yes: t("profile.delete"),
  danger: true,
});
