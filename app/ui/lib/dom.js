// What components are made of. Text is always text: no component sets HTML from a string.

import { Component, h, render } from "../vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { render, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** A component that is drawn again only when one of its properties is another one. */
export function pure(draw) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const keys = Object.keys(next);
      return keys.length !== Object.keys(this.props).length || keys.some((key) => next[key] !== this.props[key]);
    }
    render(props) {
      return draw(props);
    }
  };
}

/** The classes whose condition holds: `classes("card", open && "open")`. */
export const classes = (...names) => names.filter(Boolean).join(" ");
