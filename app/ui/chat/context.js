// How full the context of a chat is: looked up from the daemon, and shown as a ring.

import { api, classes, count, html, isUnreachable, t, useEffect, useState, useStore } from "/lib.js";
import { conversationPath, status } from "./chats.js";

/** From here on a chat offers ways to make room. */
const NEARLY_FULL = 0.8;

const RETRY_MS = 2000;

/** The daemon's answer about the next prompt of a chat; null while it is unknown. */
export function useContextUse({ id }, state, chat) {
  const [use, setUse] = useState(null);
  const daemon = useStore(status, ({ now }) => now && `${now.fingerprint} ${now.started_at}`);
  const { messages, head, profile, beyond, instructions } = state;
  const isBusy = Boolean(state.live);
  const [tries, setTries] = useState(0);
  const isKnown = state.state !== "unread";
  useEffect(() => {
    if (isBusy || !daemon || !isKnown) return undefined;
    const leaving = new AbortController();
    let timer;
    const failed = (error) => {
      // 501: the engine is at another address, and stays there.
      const mayPass = isUnreachable(error) || (error.status >= 500 && error.status !== 501);
      if (mayPass) timer = setTimeout(() => setTries(tries + 1), RETRY_MS);
    };
    const query = new URLSearchParams({ ...(profile && { profile }), ...(beyond && { beyond }) });
    api.get(conversationPath(id, `/context?${query}`), { signal: leaving.signal }).then(setUse, failed);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [id, daemon, isKnown, isBusy, messages, head, profile, beyond, instructions, chat?.place, chat?.ready, tries]);
  return use?.conversation === id ? use : null;
}

export const shareOf = ({ tokens, max_tokens: max }) => (max ? Math.min(1, tokens / max) : 0);

/** A chat that goes on past the context makes room by itself. */
export const isNearlyFull = (use) => !use.goes_on && shareOf(use) >= NEARLY_FULL;

export function ContextRing({ use, isOpen, onClick }) {
  const share = shareOf(use);
  const of = { used: count(use.tokens), all: count(use.max_tokens) };
  return html`
    <button
      type="button"
      class=${classes("fact", isNearlyFull(use) && "nearly-full")}
      aria-label=${t("context.label", of)}
      title=${t("context.long")}
      aria-expanded=${isOpen}
      onClick=${onClick}
      data-test="context"
    >
      <svg class="ring" viewBox="0 0 20 20" aria-hidden="true">
        <circle cx="10" cy="10" r="7.5" />
        <circle cx="10" cy="10" r="7.5" pathLength="100" stroke-dasharray="${100 * share} 100" />
      </svg>
      <span class="figure">${t("context.of", of)}</span>
    </button>`;
}
