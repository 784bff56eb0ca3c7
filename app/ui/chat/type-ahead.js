// Sends the composer's text to the daemon while the user types: the daemon computes the finished words
// before the message is sent, and records none of them.
//
// - One request at a time, one in 300 ms at most, and none unless a word was finished or changed.
// - Deleting words sends nothing: the daemon drops what differs from the next words or the message.
// - On failure the daemon computes the words with the message. An engine at another address always does: 501.

import { api, preferences } from "/lib.js";
import { conversationPath } from "./chats.js";

const EVERY_MS = 300;

/** Up to the last space, or the last letter of a script without spaces. */
const FINISHED = /^[^]*[\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u;

/** `fields()` has what the next request asks beside the words; null while that is not known. */
export function createTypeAhead(id, fields) {
  const path = conversationPath(id, "/typing");
  let wanted = "";
  let sent = "";
  let sentAt = -Infinity;
  let timer = null;
  let request = null;
  let isOff = false;

  function write(draft) {
    if (isOff || !preferences.get().typeAhead) return;
    wanted = FINISHED.exec(draft)?.[0].trim() ?? "";
    plan();
  }

  function plan() {
    if (timer !== null || request || sent.startsWith(wanted)) return;
    timer = setTimeout(send, Math.max(0, sentAt + EVERY_MS - performance.now()));
  }

  function send() {
    timer = null;
    const asked = fields();
    if (!asked || sent.startsWith(wanted)) return;
    sent = wanted;
    sentAt = performance.now();
    request = api.post(path, { text: `${sent} `, ...asked }).then(
      ({ reason }) => {
        if (reason === "answering" || reason === "speaking") sent = "";
        isOff ||= reason === "off";
      },
      ({ status }) => {
        isOff ||= status === 501;
      },
    );
    request.finally(() => {
      request = null;
      if (sent) plan();
    });
  }

  /** Resolves once no request is under way: a later one would compute words of a sent message. */
  async function stop() {
    clearTimeout(timer);
    timer = null;
    wanted = "";
    await request;
    sent = "";
  }

  /** The user leaves the chat: cancels what the daemon computes. */
  async function leave() {
    const wasSent = sent;
    await stop();
    if (wasSent) await api.del(path).catch(() => {});
  }

  return { write, stop, leave };
}
