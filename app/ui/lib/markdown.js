// Streaming Markdown to DOM elements. Model output is hostile input:
//
// - The renderer creates elements one by one from a fixed list; nothing is parsed as HTML.
// - No image is loaded: an image becomes a link with its text. Links are http, https or mailto;
//   `openLink` asks before it follows one.
// - Each update parses only the new text, so the cost of a token does not grow with the answer.

import * as smd from "../vendor/streaming-markdown.js";

const TAGS = {
  [smd.PARAGRAPH]: "p",
  [smd.HEADING_1]: "h3",
  [smd.HEADING_2]: "h4",
  [smd.HEADING_3]: "h5",
  [smd.HEADING_4]: "h6",
  [smd.HEADING_5]: "h6",
  [smd.HEADING_6]: "h6",
  [smd.BLOCKQUOTE]: "blockquote",
  [smd.LIST_UNORDERED]: "ul",
  [smd.LIST_ORDERED]: "ol",
  [smd.LIST_ITEM]: "li",
  [smd.RULE]: "hr",
  [smd.LINE_BREAK]: "br",
  [smd.ITALIC_AST]: "em",
  [smd.ITALIC_UND]: "em",
  [smd.STRONG_AST]: "strong",
  [smd.STRONG_UND]: "strong",
  [smd.STRIKE]: "s",
  [smd.CODE_INLINE]: "code",
  [smd.LINK]: "a",
  [smd.RAW_URL]: "a",
  [smd.IMAGE]: "a",
  [smd.TABLE]: "table",
  [smd.TABLE_ROW]: "tr",
  [smd.CODE_BLOCK]: "pre",
  [smd.CODE_FENCE]: "pre",
  [smd.EQUATION_BLOCK]: "pre",
  [smd.EQUATION_INLINE]: "code",
};
const PREFORMATTED = new Set([smd.CODE_BLOCK, smd.CODE_FENCE, smd.EQUATION_BLOCK]);
/** The parser's stack holds this many levels; text nested deeper is shown as plain text. */
const MAX_LEVELS = 20;

/** The normalised address of an http, https or mailto link; null for everything else. */
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * Renders growing Markdown into `root` and calls `onCode(pre, code)` for each code block.
 * `update(text)` takes the whole text so far; `end()` closes what is still open.
 */
export function markdownView(root, onCode) {
  let parser, shown, isPlain;
  reset();

  function reset() {
    root.replaceChildren();
    shown = "";
    isPlain = false;
    parser = smd.parser(renderer(root, onCode));
  }

  function update(text) {
    if (!text.startsWith(shown)) reset();
    const more = text.slice(shown.length);
    shown = text;
    if (!more) return;
    if (isPlain) root.lastChild.textContent = text;
    else if (parser.len > MAX_LEVELS) showAsPlain(text);
    else parseOrFallBack(() => smd.parser_write(parser, more), text);
  }

  function parseOrFallBack(parse, text) {
    try {
      parse();
    } catch (error) {
      console.warn("Markdown is shown as plain text:", error.message);
      showAsPlain(text);
    }
  }

  function showAsPlain(text) {
    isPlain = true;
    const pre = document.createElement("pre");
    pre.className = "plain";
    pre.textContent = text;
    root.replaceChildren(pre);
  }

  return {
    update,
    end: () => isPlain || parseOrFallBack(() => smd.parser_end(parser), shown),
  };
}

function renderer(root, onCode) {
  const data = { nodes: [root] };
  const top = () => data.nodes[data.nodes.length - 1];

  return {
    data,
    add_token(_, token) {
      if (data.nodes.length > MAX_LEVELS) throw new Error("it is nested too deeply");
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
