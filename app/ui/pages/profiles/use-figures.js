// The tokens and bytes of a draft, which the daemon counts shortly after a change, and when it answers again.

import { api, t, useEffect, useMemo, useState, useStore } from "/lib.js";
import { status } from "/chat/chats.js";
import { requestOf } from "./draft.js";

const CHECK_AFTER_MS = 350;

/** `problem`: why the draft cannot be saved; `at` is the segment, null for the profile as a whole. */
export function useFigures(draft, isDirty, profile) {
  const [figures, setFigures] = useState({ byId: new Map(), whole: null });
  const [problem, setProblem] = useState(null);
  const request = useMemo(
    () => (draft && isDirty ? JSON.stringify(requestOf(draft)) : null),
    [draft, isDirty],
  );
  const receive = (counted) => {
    const byId = new Map(draft.segments.map(({ id }, at) => [id, counted.segments[at]]));
    setProblem(null);
    setFigures({ whole: counted, byId });
  };
  useEffect(() => {
    if (draft && profile?.segments && !isDirty) receive(profile);
  }, [profile, isDirty, draft?.revision]);
  const isAway = useStore(status, ({ error }) => Boolean(error));
  const restarts = useStore(status, ({ restarts }) => restarts);
  useEffect(() => {
    if (!request) return;
    const empty = firstEmpty(draft.segments);
    if (empty >= 0) {
      setProblem({ message: t("profile.empty"), at: empty, isMild: true });
      return;
    }
    const abort = new AbortController();
    const { signal } = abort;
    const timer = setTimeout(async () => {
      const body = { ...JSON.parse(request), revision: undefined };
      try {
        const counted = await api.post("/v1/profiles/check", body, { signal });
        if (!signal.aborted) receive(counted);
      } catch (error) {
        if (!signal.aborted) setProblem({ message: error.message, at: segmentOf(error) });
      }
    }, CHECK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [request, isAway, restarts]);
  return { figures, problem };
}

const firstEmpty = (segments) =>
  segments.findIndex(({ source, content }) => source === "text" && !content.trim());

/** The index of the segment that the daemon refused; null when it is the profile as a whole. */
function segmentOf(error) {
  const match = /^segments\[(\d+)\]/.exec(error.param ?? "");
  return match ? Number(match[1]) : null;
}
