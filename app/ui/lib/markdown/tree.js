// Tokens to elements, one by one from a fixed list. Model output is hostile input:
//
// - Nothing is parsed as HTML: what is written as HTML is shown as text, except four harmless tags.
// - No image is loaded: an image becomes a link with its text. Links are http, https or mailto.
// - Text nested deeper than 50 levels is shown as it was written.

import { h } from "../dom.js";
import { safeAddress } from "../links.js";
import { parser } from "./parser.js";

const MAX_LEVELS = 50;
const HEADINGS = { h1: "h3", h2: "h4", h3: "h5", h4: "h6", h5: "h6", h6: "h6" };
const HARMLESS_TAG = /^<(\/?)(sub|sup|kbd|br)\s*\/?>$/i;
const MAX_DIGITS = 9;

/**
 * `parts`: the components `Code`, `Formula` and `Table`; `toAddress`: an address that may be followed, or null.
 * Throws where the text is nested too deeply.
 */
export function elements(tokens, components, toAddress = safeAddress) {
  const parts = { ...components, toAddress };
  const root = { children: [] };
  const stack = [root];
  const add = (child) => stack.at(-1).children.push(child);
  const close = () => {
    const { tag, props, children } = stack.pop();
    if (tag) add(h(tag, props, ...children));
    else stack.at(-1).children.push(...children);
  };
  // A tag that is still open where its element ends was no tag.
  const closeWritten = () => {
    for (; stack.at(-1).written; close()) {
      const open = stack.at(-1);
      open.children.unshift(open.written);
      open.tag = null;
    }
  };
  const openOrCloseHtml = (text) => {
    const [, isEnd, name] = HARMLESS_TAG.exec(text) ?? [];
    const tag = name?.toLowerCase();
    if (tag === "br") add(h("br"));
    else if (tag && !isEnd) stack.push({ tag, props: null, children: [], written: text });
    else if (tag && stack.at(-1).written && stack.at(-1).tag === tag) close();
    else add(text);
  };

  const draw = (all) => {
    for (const token of all) {
      if (stack.length > MAX_LEVELS) throw new Error("it is nested too deeply");
      if (token.nesting === 1) stack.push({ ...opened(token, parts), children: begun(token) });
      else if (token.nesting === -1) {
        closeWritten();
        close();
      } else if (token.type === "inline") {
        draw(token.children);
        closeWritten();
      } else if (token.type === "html_inline") openOrCloseHtml(token.content);
      else if (token.type === "image" && stack.some(({ tag }) => tag === "a")) add(plainText(token.children));
      else add(leaf(token, parts));
    }
  };
  draw(tokens);
  return root.children;
}

/** The element of a token that has others within it. */
function opened(token, { Table, toAddress }) {
  const { type, tag } = token;
  // What has a `dir` does not count for the direction of what is around it: only the outermost has one.
  const outermost = token.level === 0 ? { dir: "auto" } : null;
  if (type === "paragraph_open") return { tag: token.hidden ? null : "p", props: outermost };
  if (type === "heading_open") return { tag: HEADINGS[tag], props: outermost };
  if (type === "table_open") return { tag: Table, props: null };
  if (type === "th_open" || type === "td_open") return { tag, props: alignment(token) };
  if (type === "link_open") return { tag: "a", props: link(token, "href", toAddress) };
  if (type === "ordered_list_open") return { tag, props: { ...outermost, start: start(token) } };
  if (type === "bullet_list_open" || type === "blockquote_open") return { tag, props: outermost };
  if (type === "list_item_open") return { tag, props: token.meta && { class: "task" } };
  if (type === "footnote_open") return { tag, props: { class: "footnote", role: "note", dir: "auto" } };
  if (PLAIN.has(type)) return { tag, props: null };
  throw new Error(`${type} has no element`);
}

const PLAIN = new Set(["thead_open", "tbody_open", "tr_open", "em_open", "strong_open", "s_open"]);

function begun({ type, meta }) {
  if (type === "list_item_open" && meta) return [checkbox(meta)];
  if (type === "footnote_open") return [h("sup", null, meta.name)];
  return [];
}

const checkbox = ({ isChecked, name }) =>
  h("input", { type: "checkbox", disabled: true, defaultChecked: isChecked, "aria-label": name || "-" });

function leaf(token, { Code, Formula, toAddress }) {
  const { type, content } = token;
  if (type === "text") return content;
  if (type === "softbreak") return "\n";
  if (type === "hardbreak") return h("br");
  if (type === "hr") return h("hr");
  if (type === "code_inline") return h("code", null, content);
  if (type === "fence") return h(Code, { code: content, language: language(token.info) });
  if (type === "code_block") return h(Code, { code: content, language: "" });
  if (type === "formula") return h(Formula, { tex: content, ...token.meta });
  if (type === "html_block") return h("p", { class: "html", dir: "auto" }, content.replace(/\n+$/, ""));
  if (type === "footnote_mark") return h("sup", { class: "footnote-mark" }, content);
  if (type === "image") {
    return h("a", link(token, "src", toAddress), plainText(token.children) || token.attrGet("src"));
  }
  throw new Error(`${type} has no element`);
}

const MAX_LANGUAGE_LETTERS = 40;
const language = (info) =>
  /^\S*/.exec(parser.utils.unescapeAll(info).trim())[0].slice(0, MAX_LANGUAGE_LETTERS);

const plainText = (tokens) =>
  tokens.map(({ type, content, children }) =>
    type.endsWith("break") ? "\n" : type === "image" ? plainText(children) : content
  ).join("");

function link(token, name, toAddress) {
  const address = token.attrGet(name);
  return {
    href: address === null ? undefined : (toAddress(address) ?? undefined),
    title: token.attrGet("title") || undefined,
    rel: "noreferrer noopener",
  };
}

function start(token) {
  const number = String(token.attrGet("start") ?? "");
  return /^\d+$/.test(number) && number.length <= MAX_DIGITS ? number : undefined;
}

function alignment(token) {
  const align = /^text-align:(left|center|right)$/.exec(token.attrGet("style") ?? "")?.[1];
  return align ? { align } : null;
}
