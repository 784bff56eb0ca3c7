// Push to talk: the user holds the button, or Alt+T, and speaks. Pressing stops an answer and prewarms the
// chat; releasing plays a short phrase and sends the transcript.
//
// - A streaming recogniser transcribes during the press; the composer shows the words. Another recogniser
//   transcribes the whole recording after it.
// - Without a microphone the button is disabled and says why.
// - Without a recogniser pressing still prewarms the chat, and the composer gets the focus.
// - The answer is spoken while it streams, if the daemon has a voice. Pressing again silences it.
// - Escape discards the recording, and silences the answer.

import { api, bind, classes, html, importModule, microphone, preferences, t } from "/lib.js";
import { useEffect, useRef, useState, useStore } from "/lib.js";
import { Icon, toast } from "/parts.js";
import { conversationPath, refreshStatus, status } from "./chats.js";

/** The user said nothing to send: the daemon drops the sound and what it computes for it. */
const dropSpeech = (id) => api.del(conversationPath(id, "/audio")).catch(() => {});

/** A shorter press is taken for a click. */
const MIN_PRESS_MS = 250;

// For the list of shortcuts only: `useHeldKey` handles the key.
bind("Alt+T", "talk.idle", () => false);

export function PushToTalk({ conversation, focusComposer }) {
  const problem = useStore(microphone, ({ problem }) => problem);
  const disabled = Boolean(problem);
  const { phase, press, release, discard } = usePushToTalk(conversation, focusComposer, disabled);
  useHeldKey(press, release, discard, conversation.silence);
  useEffect(() => discard, [conversation]);
  const label = t(problem ?? `talk.${phase}`);
  const onKey = (act) => (event) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    if (!event.repeat) act();
  };
  return html`
    <button
      type="button"
      class=${classes("icon-button", "talk-button", phase)}
      aria-label=${label}
      title=${label}
      aria-pressed=${phase === "recording"}
      aria-disabled=${disabled}
      onPointerDown=${press}
      onPointerCancel=${discard}
      onKeyDown=${onKey(press)}
      onKeyUp=${onKey(release)}
      onContextMenu=${(event) => event.preventDefault()}
      data-test="talk-button"
      data-phase=${phase}
    >
      <${Icon} name="mic" />
    </button>
    <span class="hidden-text" role="status">${phase === "idle" ? "" : label}</span>`;
}

/** One recording at a time. Code after an `await` checks that its turn is still the current one. */
function usePushToTalk(conversation, focusComposer, disabled) {
  const { id } = conversation;
  const [phase, setPhase] = useState("idle");
  const now = useStore(status, ({ now }) => now);
  const turn = useRef(null);
  const filler = useRef(null);
  const end = () => {
    turn.current = null;
    conversation.hear(null);
    setPhase("idle");
  };
  const discard = () => {
    const { current } = turn;
    if (!current) return;
    end();
    current.abort.abort();
    current.recording?.end();
    dropSpeech(id);
  };
  const failed = (mine, error) => {
    // It was discarded.
    if (turn.current !== mine) return;
    discard();
    const isDenied = error.name === "NotAllowedError";
    toast(isDenied ? t("talk.refused") : t("talk.failed", { message: error.message }));
  };
  const press = async ({ pointerId } = {}) => {
    if (turn.current || disabled) return;
    const mine = { abort: new AbortController(), at: performance.now(), pointerId };
    turn.current = mine;
    filler.current?.abort();
    setPhase("opening");
    // The page may have just loaded.
    const known = now ?? (await refreshStatus());
    if (turn.current !== mine) return;
    const isHeard = known?.recognizer_stream || known?.recognizer;
    const ready = isHeard || !conversation.store.get().live ? conversation.listen() : null;
    if (!isHeard) {
      end();
      focusComposer();
      toast(t("talk.typed"));
      return;
    }
    try {
      const voice = await importModule("/chat/voice.js");
      const recording = await voice.record();
      if (turn.current !== mine) {
        recording.end();
        return;
      }
      Object.assign(mine, { recording, voice });
      setPhase("recording");
      if (known.recognizer_stream) {
        conversation.hear("");
        mine.transcript = voice.streamSpeech(id, recording, {
          ready,
          show: conversation.hear,
          failed: (error) => failed(mine, error),
          signal: mine.abort.signal,
        });
      } else {
        mine.transcript = () => voice.transcribed(recording, mine.abort.signal);
      }
      if (mine.isReleased) await release();
    } catch (error) {
      failed(mine, error);
    }
  };
  /** `pointerId`: of a pointer that was released; a key releases what any of them holds. */
  const release = async (pointerId = turn.current?.pointerId) => {
    const mine = turn.current;
    if (!mine || pointerId !== mine.pointerId || phase === "transcribing") return;
    mine.isReleased = true;
    // The microphone is still opening: `press` calls again.
    if (!mine.recording) return;
    if (performance.now() - mine.at < MIN_PRESS_MS) {
      discard();
      toast(t("talk.hold"));
      return;
    }
    setPhase("transcribing");
    try {
      filler.current = mine.abort;
      const isMuted = mine.recording.isMuted();
      const transcript = mine.transcript();
      mine.voice.playFiller(id, mine.abort.signal);
      const text = await transcript;
      if (turn.current !== mine) return;
      // Without aborting: the filler plays to its end.
      end();
      const isSpoken = status.get().now?.voice && preferences.get().speaks;
      if (text) conversation.send(text, { speaker: isSpoken ? mine.voice.createSpeaker() : null });
      else toast(t(isMuted ? "talk.muted" : "talk.nothing"));
    } catch (error) {
      failed(mine, error);
    }
  };
  return { phase, press, release, discard };
}

/** Alt+T presses and releases; the pointer releases, wherever it is by then; Escape and leaving the window discard;
    Escape silences the answer. */
function useHeldKey(press, release, discard, silence) {
  const actions = useRef();
  actions.current = { press, release, discard, silence };
  useEffect(() => {
    const keyDown = (event) => {
      if (event.key === "Escape") {
        actions.current.discard();
        actions.current.silence();
      }
      if (!event.altKey || event.code !== "KeyT" || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      if (!event.repeat) actions.current.press();
    };
    const keyUp = (event) => {
      if (event.code === "KeyT" || event.key === "Alt") actions.current.release();
    };
    const pointerUp = ({ pointerId }) => actions.current.release(pointerId);
    const leave = () => actions.current.discard();
    document.addEventListener("keydown", keyDown);
    document.addEventListener("keyup", keyUp);
    document.addEventListener("pointerup", pointerUp);
    window.addEventListener("blur", leave);
    return () => {
      document.removeEventListener("keydown", keyDown);
      document.removeEventListener("keyup", keyUp);
      document.removeEventListener("pointerup", pointerUp);
      window.removeEventListener("blur", leave);
    };
  }, []);
}
