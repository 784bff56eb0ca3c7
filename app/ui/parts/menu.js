// A button that opens a short list of things to do. Arrows move, Escape closes, focus comes back.

import { html, useLayoutEffect, useRef, useState } from "/lib.js";
import { IconButton } from "./button.js";
import { Icon } from "./icon.js";

/** `items`: `{ icon, label, act, danger }`, or nothing for one that is not there now. */
export function Menu({ icon = "more", label, items, test }) {
  const [place, setPlace] = useState(null);
  const frame = useRef();
  const list = useRef();
  const close = () => {
    setPlace(null);
    frame.current?.querySelector("button")?.focus();
  };
  useLayoutEffect(() => {
    if (!place) return;
    list.current.showPopover(); // Above everything: a list would cut it off.
    list.current.querySelector("button")?.focus();
    const away = (event) => frame.current?.contains(event.target) || setPlace(null);
    document.addEventListener("pointerdown", away);
    window.addEventListener("blur", away);
    return () => {
      document.removeEventListener("pointerdown", away);
      window.removeEventListener("blur", away);
    };
  }, [place]);
  const open = (event) => {
    event.preventDefault();
    const { right, bottom, top } = event.currentTarget.getBoundingClientRect();
    const low = bottom > innerHeight - 260;
    setPlace({ right: Math.max(8, innerWidth - right), ...(low ? { bottom: innerHeight - top + 4 } : { top: bottom + 4 }) });
  };
  const keys = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (step) {
      const buttons = [...list.current.querySelectorAll("button")];
      buttons.at((buttons.indexOf(document.activeElement) + step) % buttons.length).focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const style = place && Object.fromEntries(Object.entries(place).map(([side, px]) => [side, `${px}px`]));
  return html`<span ref=${frame}>
    <${IconButton} icon=${icon} label=${label} aria-haspopup="menu" aria-expanded=${Boolean(place)} onClick=${place ? close : open} data-test=${test} />
    ${place && html`<div class="menu" popover="manual" role="menu" aria-label=${label} ref=${list} style=${style} onKeyDown=${keys}>
      ${items.filter(Boolean).map(({ icon, label, act, danger }) => html`<button type="button" role="menuitem" class=${danger ? "danger" : ""} onClick=${() => {
        close();
        act();
      }}><${Icon} name=${icon} />${label}</button>`)}
    </div>`}
  </span>`;
}
