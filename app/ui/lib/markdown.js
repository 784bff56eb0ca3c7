// Markdown as it streams, into elements. Model output is hostile input:
//
// - Elements are made one by one from a fixed list; nothing is ever parsed as HTML.
// - No image is loaded: an image becomes a link with its text. Links are http, https or mailto, and are
//   opened by whoever shows them, after a question.
// - Only what is new is parsed, so that a long answer costs no more at its end than at its beginning.

import * as smd from "../vendor/streaming-markdown.js";

const TAGS = {
  [smd.PARAGRAPH]: "p", [smd.HEADING_1]: "h3", [smd.HEADING_2]: "h4", [smd.HEADING_3]: "h5",
  [smd.HEADING_4]: "h6", [smd.HEADING_5]: "h6", [smd.HEADING_6]: "h6", [smd.BLOCKQUOTE]: "blockquote",
  [smd.LIST_UNORDERED]: "ul", [smd.LIST_ORDERED]: "ol", [smd.LIST_ITEM]: "li", [smd.RULE]: "hr",
  [smd.LINE_BREAK]: "br", [smd.ITALIC_AST]: "em", [smd.ITALIC_UND]: "em", [smd.STRONG_AST]: "strong",
  [smd.STRONG_UND]: "strong", [smd.STRIKE]: "s", [smd.CODE_INLINE]: "code", [smd.LINK]: "a",
  [smd.RAW_URL]: "a", [smd.IMAGE]: "a", [smd.TABLE]: "table", [smd.TABLE_ROW]: "tr",
  [smd.CODE_BLOCK]: "pre", [smd.CODE_FENCE]: "pre", [smd.EQUATION_BLOCK]: "pre", [smd.EQUATION_INLINE]: "code",
};
const PREFORMATTED = new Set([smd.CODE_BLOCK, smd.CODE_FENCE, smd.EQUATION_BLOCK]);
/** The parser has room for so many levels; deeper text is shown as it is. */
const MOST_LEVELS = 20;

/** Where a link may lead; null for everything else. */
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * Shows Markdown in `root` as it grows. `onCode(pre, code)` is told of each block of code.
 * `update(text)` takes the whole text so far; `end()` that no more comes.
 */
export function markdownView(root, onCode) {
  let parser, shown, isPlain;
  begin();

  function begin() {
    root.replaceChildren();
    shown = "";
    isPlain = false;
    parser = smd.parser(renderer(root, onCode));
  }

  function update(text) {
    if (!text.startsWith(shown)) begin();
    const more = text.slice(shown.length);
    shown = text;
    if (!more) return;
    if (isPlain) root.lastChild.textContent = text;
    else if (parser.len > MOST_LEVELS) asPlain(text);
    else guarded(() => smd.parser_write(parser, more), text);
  }

  /** A text that the parser cannot take is shown as it came. */
  function guarded(parse, text) {
    try {
      parse();
    } catch (error) {
      console.warn("Markdown is shown as it came:", error.message);
      asPlain(text);
    }
  }

  function asPlain(text) {
    isPlain = true;
    const pre = document.createElement("pre");
    pre.className = "plain";
    pre.textContent = text;
    root.replaceChildren(pre);
  }

  return {
    update,
    end: () => isPlain || guarded(() => smd.parser_end(parser), shown),
  };
}

function renderer(root, onCode) {
  const data = { nodes: [root] };
  const top = () => data.nodes[data.nodes.length - 1];

  return {
    data,
    add_token(_, token) {
      if (data.nodes.length > MOST_LEVELS) throw new Error("it is nested too deeply");
      if (token === smd.CHECKBOX) return open(checkbox());
      if (token === smd.TABLE_CELL) return open(make(top().previousSibling ? "td" : "th"));
      const node = make(TAGS[token] ?? "span");
      if (PREFORMATTED.has(token)) {
        const code = make("code");
        node.append(code);
        top().append(node);
        onCode(node, code);
        data.nodes.push(code);
      } else {
        if (node.tagName === "A") node.rel = "noreferrer noopener";
        open(node);
      }
    },
    end_token() {
      if (data.nodes.length > 1) data.nodes.pop();
    },
    add_text(_, text) {
      top().append(text);
    },
    set_attr(_, attribute, value) {
      const node = top();
      if (attribute === smd.HREF || attribute === smd.SRC) {
        const address = safeAddress(value);
        if (node.tagName === "A" && address) node.href = address;
      } else if (attribute === smd.LANG) {
        node.dataset.language = value.slice(0, 40);
      } else if (attribute === smd.CHECKED) {
        node.checked = true;
      } else if (attribute === smd.START && /^\d{1,9}$/.test(value)) {
        node.setAttribute("start", value);
      }
    },
  };

  function open(node) {
    top().append(node);
    data.nodes.push(node);
  }
}

const make = (tag) => document.createElement(tag);

function checkbox() {
  const box = make("input");
  box.type = "checkbox";
  box.disabled = true;
  return box;
}
