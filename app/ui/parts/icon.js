// Icons, drawn here: 24 x 24, one stroke. They decorate; the words are beside them or in a label.

import { html } from "/lib.js";

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M20 20l-4-4",
  memory: "M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4",
  profiles: "M4 6h16M4 12h16M4 18h10",
  models: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  again: "M20 11a8 8 0 1 0-1 5M20 5v6h-6",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  more: "M12 6h.01M12 12h.01M12 18h.01",
  pin: "M9 4h6l-1 6 3 4H7l3-4zM12 14v6",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  down: "M6 10l6 6 6-6",
  up: "M6 14l6-6 6 6",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 12l5 5L19 7",
  side: "M4 5h16v14H4zM10 5v14",
  hot: "M12 3c1 3.5 5 5.5 5 10a5 5 0 0 1-10 0c0-2.5 1.5-3.5 2-5.5 1.5 1 2 2 2.5 3.5C12.5 8.5 11.5 6 12 3z",
  warm: "M4 17h16M7 17a5 5 0 0 1 10 0M12 5v3M5 9l2 1.5M19 9l-2 1.5M2 21h20",
  cold: "M12 3v18M4.2 7.5l15.6 9M19.8 7.5l-15.6 9",
  none: "M6 4h12v16H6zM9 9h6M9 13h6M9 17h3",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  upload: "M12 20V9M7 13l5-5 5 5M4 4h16",
  mic: "M9 5a3 3 0 0 1 6 0v6a3 3 0 0 1-6 0zM5 11a7 7 0 0 0 14 0M12 18v3",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
};

export function Icon({ name, small }) {
  return html`<svg class=${small ? "icon small" : "icon"} viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
