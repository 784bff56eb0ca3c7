// A button that opens a menu. Arrow keys, Home and End move, Escape closes, the focus returns to the button.

import { html, useLayoutEffect, useRef, useState } from "/lib.js";
import { IconButton } from "./button.js";
import { Icon } from "./icon.js";

/** With less room below the button the menu opens upwards, if there is more. */
const ROOM_PX = 260;
const GAP_PX = 4;
const MARGIN_PX = 8;

/**
 * `items`: `{ icon, label, note, act, danger, current, disabled }`, or a function that returns them; falsy
 * items are skipped. `text`: on the button, in place of the icon.
 */
export function Menu({ icon = "more", text, label, items, small, disabled, test, tabindex, onOpen }) {
  const [place, setPlace] = useState(null);
  const frame = useRef();
  const list = useRef();
  const close = () => {
    setPlace(null);
    frame.current?.querySelector("button")?.focus();
  };
  useLayoutEffect(() => {
    if (!place) return;
    // In the top layer: a scrolling list would clip it.
    list.current.showPopover();
    list.current.querySelector("button")?.focus();
    const leave = () => setPlace(null);
    const press = ({ target }) => frame.current?.contains(target) || leave();
    document.addEventListener("pointerdown", press);
    window.addEventListener("blur", leave);
    return () => {
      document.removeEventListener("pointerdown", press);
      window.removeEventListener("blur", leave);
    };
  }, [place]);
  const open = (event) => {
    event.preventDefault();
    setPlace(placeBeside(event.currentTarget.getBoundingClientRect()));
    onOpen?.();
  };
  const navigate = (event) => {
    const buttons = [...list.current.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const next = { ArrowDown: (at + 1) % buttons.length, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (next !== undefined) buttons.at(next).focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const button = {
    disabled,
    "aria-haspopup": "menu",
    "aria-expanded": Boolean(place),
    onClick: place ? close : open,
    "data-test": test,
    tabindex,
  };
  return html`<span ref=${frame} class=${text && "menu-frame"}>
    ${text
      ? html`
        <button type="button" class="fact" ...${button} aria-label=${label} title=${label}>
          <span class="fact-text">${text}</span><${Icon} name="down" small />
        </button>`
      : html`<${IconButton} icon=${icon} label=${label} small=${small} ...${button} />`}
    ${place && html`
      <div
        class="menu"
        popover="manual"
        role="menu"
        aria-label=${label}
        ref=${list}
        style=${place}
        onKeyDown=${navigate}
      >
        ${listed(items).map((item) => html`<${Item} ...${item} close=${close} />`)}
      </div>`}
  </span>`;
}

const listed = (items) => (typeof items === "function" ? items() : items).filter(Boolean);

function Item({ icon, label, note, act, danger, current, disabled, close }) {
  const choose = () => {
    close();
    act();
  };
  return html`
    <button
      type="button"
      role="menuitem"
      class=${danger ? "danger" : ""}
      aria-current=${current ? "true" : null}
      aria-disabled=${disabled ? "true" : null}
      onClick=${disabled ? null : choose}
    >
      ${icon && html`<${Icon} name=${icon} />`}<span class="grow">${label}</span>
      ${note && html`<span class="menu-note">${note}</span>`}
    </button>`;
}

/** Towards the side of the window that has more room. `--room` is the height that it has there. */
function placeBeside({ left, right, bottom, top }) {
  const isAtLeft = left < innerWidth - right;
  const aside = isAtLeft
    ? { left: `${Math.max(MARGIN_PX, left)}px` }
    : { right: `${Math.max(MARGIN_PX, innerWidth - right)}px` };
  const [above, below] = [top, innerHeight - bottom].map((room) => room - GAP_PX - MARGIN_PX);
  return below < ROOM_PX && above > below
    ? { ...aside, bottom: `${innerHeight - top + GAP_PX}px`, "--room": `${above}px` }
    : { ...aside, top: `${bottom + GAP_PX}px`, "--room": `${below}px` };
}
