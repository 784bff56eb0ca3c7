// What a document costs and what of it is ready, in words.

import { bytes, t } from "/lib.js";

/** `view`: what the daemon says; null until it has answered. It has no tokens where an engine at another address counts
    them. */
export function documentInWords({ view, progress, error }) {
  if (error) return error.message;
  if (!view) return t("document.sending");
  const { tokens, ready_tokens: ready, context_tokens: room, seconds_left: left } = view;
  if (!tokens) return bytes(view.bytes);
  if (tokens >= room) return t("document.too-long", { tokens, room });
  if (progress) return readingInWords(progress);
  if (ready >= tokens) return t("document.ready", { tokens });
  const seconds = Math.max(1, Math.round(left ?? 0));
  return t(left === null ? "document.unread" : "document.unread.left", { tokens, seconds });
}

export function readingInWords({ tokens_ready: ready, tokens_total: total, seconds_left: left }) {
  const seconds = Math.round(left ?? 0);
  return t(seconds >= 1 ? "reading.left" : "reading.of", { ready, total, seconds });
}

/** `sending`, `failed`, `too-long`, `reading`, `ready` or `unread`. */
export function documentState({ view, progress, error }) {
  if (error) return "failed";
  if (!view) return "sending";
  if (view.tokens >= view.context_tokens) return "too-long";
  if (progress) return "reading";
  return view.ready_tokens >= view.tokens ? "ready" : "unread";
}
