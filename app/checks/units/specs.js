// The examples of CommonMark and of GitHub Flavored Markdown, drawn by the page.
//
// The page differs from the specifications on purpose; these rules say how, and are applied to what they expect:
//
// - headings begin at `h3`, and there are four levels;
// - an image is a link with its text, and within a link its text;
// - HTML is shown as text: in an example that has any, both sides are compared as text with its entities decoded;
// - a block of code has a bar, a table a frame, an element a direction: these are left out.
//
// Links keep their address whatever it is: `./markdown.js` checks which may be followed.

import { h, html, render } from "/lib.js";
import { parser } from "/lib/markdown/parser.js";
import { elements } from "/lib/markdown/tree.js";
import { equal, note, test } from "./harness.js";
import { reasons } from "./specs-remaining.js";

const load = async (name) => (await fetch(`/units/specs/${name}.json`)).json();
const specifications = { commonmark: await load("commonmark-0.31.2"), gfm: await load("gfm-0.29") };

for (const [name, examples] of Object.entries(specifications)) {
  test(`${name}'s examples render as it says`, () => {
    const failed = examples.filter((example) => drawn(example) !== expected(example));
    note(`${name}: ${examples.length - failed.length} of ${examples.length} examples`);
    const unexplained = failed.filter(({ example }) => !reasons[name][example]);
    equal(unexplained.map((one) => [one.example, drawn(one), expected(one)]), []);
    equal(failed.map(({ example }) => example), Object.keys(reasons[name]).map(Number));
  });
}

const hasHtml = (markdown) => {
  const isHtml = ({ type, children }) => type.startsWith("html_") || children?.some(isHtml);
  return parser.parse(markdown, {}).some(isHtml);
};

function drawn({ markdown }) {
  const root = document.createElement("div");
  const parts = {
    Code: ({ code, language }) =>
      html`<pre><code class=${language ? `language-${language}` : null}>${code}</code></pre>`,
    Formula: ({ tex }) => html`<math>${tex}</math>`,
    Table: ({ children }) => html`<table>${children}</table>`,
  };
  render(h("div", null, elements(parser.parse(markdown, {}), parts, (address) => address)), root);
  for (const block of root.querySelectorAll("p.html")) block.replaceWith(...block.childNodes, "\n");
  for (const element of root.querySelectorAll("*")) {
    for (const name of ["dir", "rel", "aria-label"]) element.removeAttribute(name);
    if (element.matches("li.task")) element.removeAttribute("class");
  }
  return normal(root.firstChild.innerHTML, hasHtml(markdown));
}

function expected({ markdown, html: wanted }) {
  const text = wanted
    .replace(/<a [^>]*>[^]*?<\/a>/g, (link) => link.replace(/<img [^>]*alt="([^"]*)"[^>]*>/g, "$1"))
    .replace(/<(\/?)h([1-6])>/g, (_, end, level) => `<${end}h${Math.min(Number(level) + 2, 6)}>`)
    .replace(/<img src="([^"]*)" alt="([^"]*)"( title="[^"]*")? \/>/g, (_, address, alt, title) =>
      `<a href="${address}"${title ?? ""}>${alt || address}</a>`);
  const isText = hasHtml(markdown);
  return normal(isText ? text : new DOMParser().parseFromString(text, "text/html").body.innerHTML, isText);
}

/** White space that no reader sees is left out, and attributes are in order. */
function normal(text, isText) {
  const parts = text.split(/(<pre>[^]*?<\/pre>)/).map((part, at) => (at % 2 ? part : collapsed(part)));
  return isText ? decoded(parts.join("")) : parts.join("").replace(TAG, inOrder);
}

const TAG = /<(\w+)((?: [\w-]+(?:="[^"]*")?)+)( ?\/)?>/g;
const inOrder = (_, tag, attributes) => `<${tag} ${attributes.match(/[\w-]+(?:="[^"]*")?/g).sort().join(" ")}>`;

const collapsed = (text) =>
  text
    .replace(/ ?\/>/g, ">")
    .replace(/\s+/g, " ")
    .replace(/ ?(<\/?(?:p|li|ul|ol|blockquote|hr|h\d|table|thead|tbody|tr|th|td|br)(?: [^>]*)?>) ?/g, "$1")
    .replace(/^ | $/g, "");

const ENTITIES = { lt: "<", gt: ">", quot: '"', amp: "&" };
const decoded = (text) => text.replace(/&(lt|gt|quot|amp);/g, (_, name) => ENTITIES[name]).replace(/\s+|\/(?=>)/g, "");
