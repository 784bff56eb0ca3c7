// Push to talk: hold the button, or Alt+T, and speak. While somebody speaks, what comes before their words
// is made hot; when they let go, a short phrase is played, and what was said is sent.
//
// - Where nothing can be heard the button is off, and says why.
// - Without a recogniser the words are typed: the press still makes the chat hot.
// - Escape drops what was said.

import { api, bind, classes, ears, html, listen, t, useEffect, useRef, useState, useStore } from "/lib.js";
import { Icon, say } from "/parts.js";
import { look, path, status } from "./chats.js";

const SHORTEST_MS = 250;

bind("Alt+T", "talk.quiet", () => false); // For the help; `useHeldKey` sees when it is let go.

/** `send`: takes what was said. `write`: gives the keyboard the word. */
export function PushToTalk({ id, profile, disabled, send, write }) {
  // `quiet`, `opening` (the microphone), `hearing`, `reading` (what was said).
  const [phase, setPhase] = useState("quiet");
  const now = useStore(status, ({ now }) => now);
  const turn = useRef(null);
  const why = useStore(ears, ({ why }) => why);
  const end = () => {
    turn.current = null;
    setPhase("quiet");
  };
  const drop = () => {
    turn.current?.stop.abort();
    turn.current?.microphone?.cancel();
    end();
  };
  const failed = (error) => {
    if (!turn.current) return; // It was dropped.
    drop();
    say(error.name === "NotAllowedError" ? t("talk.refused") : t("talk.failed", { message: error.message }));
  };
  const press = async () => {
    if (turn.current || disabled || why) return;
    const mine = (turn.current = { stop: new AbortController(), at: performance.now() });
    api.post(path(id, "/speech-start"), profile ? { profile } : {}).catch(() => {}); // Then it is computed later.
    setPhase("opening");
    const known = now ?? (await look()); // The page may have just begun.
    if (turn.current !== mine) return;
    if (!known?.recognizer) {
      drop();
      write();
      return say(t("talk.typed"));
    }
    try {
      const microphone = await listen();
      if (turn.current !== mine) return void microphone.cancel();
      mine.microphone = microphone;
      setPhase("hearing");
      if (mine.released) await release();
    } catch (error) {
      failed(error);
    }
  };
  const release = async () => {
    const mine = turn.current;
    if (!mine || phase === "reading") return;
    mine.released = true;
    if (!mine.microphone) return; // It still opens.
    if (performance.now() - mine.at < SHORTEST_MS) {
      drop();
      return say(t("talk.hold"));
    }
    const { signal } = mine.stop;
    setPhase("reading");
    try {
      const body = await mine.microphone.stop();
      play(id, signal);
      const { text } = await api.post("/v1/voice/transcriptions", body, { type: "audio/wav", signal });
      if (turn.current !== mine) return;
      end(); // What is being said is said to its end.
      if (text) send(text);
      else say(t("talk.nothing"));
    } catch (error) {
      failed(error);
    }
  };
  useHeldKey(press, release, drop);
  useEffect(() => drop, [id]);
  const label = why ? t(why) : t(`talk.${phase}`);
  const key = (act) => (event) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    if (!event.repeat) act();
  };
  return html`<button type="button" class=${classes("icon-button", "talk-button", phase)} aria-label=${label} title=${label} aria-pressed=${phase === "hearing"} aria-disabled=${Boolean(why || disabled)}
      onPointerDown=${press} onPointerUp=${release} onPointerCancel=${drop} onKeyDown=${key(press)} onKeyUp=${key(release)} onContextMenu=${(event) => event.preventDefault()} data-test="talk-button" data-phase=${phase}>
      <${Icon} name="mic" /></button>
    <span class="hidden-text" role="status">${phase === "quiet" ? "" : label}</span>`;
}

/** Alt+T while it is held; Escape drops. */
function useHeldKey(press, release, drop) {
  const acts = useRef();
  acts.current = { press, release, drop };
  useEffect(() => {
    const isT = (event) => event.code === "KeyT" || event.key === "Alt";
    const down = (event) => {
      if (event.key === "Escape") acts.current.drop();
      if (!event.altKey || event.code !== "KeyT" || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      if (!event.repeat) acts.current.press();
    };
    const up = (event) => isT(event) && acts.current.release();
    const away = () => acts.current.drop();
    document.addEventListener("keydown", down);
    document.addEventListener("keyup", up);
    window.addEventListener("blur", away);
    return () => {
      document.removeEventListener("keydown", down);
      document.removeEventListener("keyup", up);
      window.removeEventListener("blur", away);
    };
  }, []);
}

/** A short phrase while the words are read, if one is at hand. */
async function play(id, signal) {
  try {
    const sound = await api.bytes("GET", `/v1/voice/filler?stopped=true&conversation=${encodeURIComponent(id)}`, { signal });
    if (!sound.size) return;
    const url = URL.createObjectURL(sound);
    const audio = new Audio(url);
    signal.addEventListener("abort", () => audio.pause());
    audio.onended = audio.onpause = () => URL.revokeObjectURL(url);
    await audio.play();
  } catch {
    // Nothing is said.
  }
}
