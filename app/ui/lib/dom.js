// Preact and htm. Text is always text: no component sets HTML from a string.

import { Component, h, render } from "../vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { h, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** A component that renders again only when a property has changed (by identity). */
export function pure(draw) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const keys = Object.keys(next);
      if (keys.length !== Object.keys(this.props).length) return true;
      return keys.some((key) => next[key] !== this.props[key]);
    }
    render(props) {
      return draw(props);
    }
  };
}

export const classes = (...names) => names.filter(Boolean).join(" ");
