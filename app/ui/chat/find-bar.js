// The bar that finds words in the chat: how many there are, and the next and the previous one.
//
// - Highlights are the browser's: the messages stay as they are.
// - While messages change, it looks again.

import { html, isComposing, t, useEffect, useLayoutEffect, useRef, useState, useStore } from "/lib.js";
import { Icon, IconButton } from "/parts.js";
import { finding } from "./finding.js";
import { matchesIn } from "./matches.js";

const AGAIN_AFTER_MS = 200;
const MESSAGES = ".talk-inner .message, .talk-inner .fold";

/** `frame`: the element that scrolls. `leaveEnd()`: it no longer follows the end. */
export function FindBar({ frame, leaveEnd }) {
  const field = useRef();
  const asked = useStore(finding, ({ asked }) => asked);
  const [words, setWords] = useState("");
  const [{ ranges, current }, setFound] = useState({ ranges: [], current: 0 });
  useLayoutEffect(() => field.current.select(), [asked]);
  const bring = (range) => {
    leaveEnd();
    scrollTo(frame.current, range);
  };
  useEffect(() => {
    const look = () => setFound(({ current }) => {
      const ranges = matches(words);
      return { ranges, current: Math.min(current, Math.max(0, ranges.length - 1)) };
    });
    const first = matches(words);
    const chosen = choose(first, ranges[current], frame.current);
    setFound({ ranges: first, current: chosen });
    if (first.length) bring(first[chosen]);
    let timer = null;
    const observer = new MutationObserver(() => {
      // Not put off by the next change: an answer changes with each frame.
      timer ??= setTimeout(() => {
        timer = null;
        look();
      }, AGAIN_AFTER_MS);
    });
    observer.observe(frame.current, { childList: true, subtree: true, characterData: true });
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [words]);
  useEffect(() => {
    const { highlights } = CSS;
    highlights.set("found", new Highlight(...ranges));
    highlights.set("found-current", new Highlight(...ranges.slice(current, current + 1)));
    return () => ["found", "found-current"].forEach((name) => highlights.delete(name));
  }, [ranges, current]);
  const show = (next) => {
    if (!ranges.length) return;
    const index = (next + ranges.length) % ranges.length;
    setFound({ ranges, current: index });
    bring(ranges[index]);
  };
  const close = () => {
    finding.set({ open: false });
    document.querySelector("[data-test=composer]")?.focus();
  };
  const handleKey = (event) => {
    if (event.key !== "Enter" || isComposing(event)) return;
    show(current + (event.shiftKey ? -1 : 1));
    event.preventDefault();
    event.stopPropagation();
  };
  const closeAtEscape = (event) => {
    if (event.key !== "Escape" || isComposing(event)) return;
    close();
    event.preventDefault();
    event.stopPropagation();
  };
  const step = (icon, name, by) => html`
    <${IconButton} icon=${icon} label=${t(name)} disabled=${!ranges.length} onClick=${() => show(current + by)} />`;
  const count = ranges.length ? t("find.count", { at: current + 1, of: ranges.length }) : t("find.none");
  return html`
    <div
      class="find-bar"
      role="search"
      aria-label=${t("find.label")}
      onKeyDown=${closeAtEscape}
      data-test="find"
    >
      <${Icon} name="search" />
      <input
        class="input"
        dir="auto"
        ref=${field}
        value=${words}
        aria-label=${t("find.label")}
        placeholder=${t("find.label")}
        data-test="find-words"
        onInput=${({ target }) => setWords(target.value)}
        onKeyDown=${handleKey}
      />
      <span class="figure note" role="status" data-test="find-count">${words.trim() ? count : ""}</span>
      ${step("up", "find.before", -1)}
      ${step("down", "find.next", 1)}
      <${IconButton} icon="close" label=${t("close")} onClick=${close} />
    </div>`;
}

const matches = (words) => words.trim() ? matchesIn(document.querySelectorAll(MESSAGES), words.trim()) : [];

/** The first match that begins at `before`, the one shown for other words, or behind it; without one, that is in sight
    or behind. A letter that is typed so keeps the place. */
function choose(ranges, before, frame) {
  if (before && document.contains(before.startContainer)) {
    return Math.max(0, ranges.findIndex((it) => it.compareBoundaryPoints(Range.START_TO_START, before) >= 0));
  }
  const { top } = frame.getBoundingClientRect();
  const inSight = ranges.findIndex((it) => messageOf(it).getBoundingClientRect().bottom > top);
  return inSight < 0 ? Math.max(0, ranges.length - 1) : inSight;
}

const elementOf = ({ startContainer }) => startContainer.parentElement ?? document.body;
const messageOf = (range) => elementOf(range).closest(".message, .fold") ?? elementOf(range);

function scrollTo(frame, range) {
  const fold = elementOf(range).closest("details");
  if (fold) fold.open = true;
  elementOf(range).scrollIntoView({ block: "center" });
  // Once the messages around it are laid out, its own line goes to the middle.
  requestAnimationFrame(() => {
    const { top, bottom } = range.getBoundingClientRect();
    const { top: from, height } = frame.getBoundingClientRect();
    const offset = (top + bottom) / 2 - from - height / 2;
    if (Math.abs(offset) > height / 3) frame.scrollTop += offset;
  });
}
