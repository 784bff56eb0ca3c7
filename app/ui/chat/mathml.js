// LaTeX to MathML elements, one by one from a fixed list.

import { h } from "/lib.js";
import temml from "../vendor/temml.js";

const TAGS = new Set(
  ("math menclose merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt " +
    "mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none semantics").split(" "),
);
const ATTRIBUTES = new Set(
  ("accent accentunder columnalign columnlines columnspacing columnspan depth displaystyle fence form height " +
    "largeop linethickness lspace mathvariant maxsize minsize movablelimits notation rowalign rowlines rowspacing " +
    "rowspan rspace scriptlevel separator stretchy symmetric voffset width").split(" "),
);
const STYLES = new Set(
  ("border borderBottom borderLeft borderRight borderTop color fontSize fontStyle fontWeight marginLeft marginRight " +
    "padding paddingBottom paddingLeft paddingRight paddingTop textAlign verticalAlign").split(" "),
);
const MAX_LETTERS = 4000;
const MAX_LEVELS = 60;
const OPTIONS = { throwOnError: true, strict: false, trust: false, maxExpand: 300, maxSize: [20, 20] };

/** Null where `tex` is wrong, too long or needs what is not allowed. */
export function mathml(tex, isDisplay) {
  if (tex.length > MAX_LETTERS) return null;
  try {
    // Throws where the next would draw the error.
    temml.__parse(tex, { ...OPTIONS, displayMode: isDisplay });
    const tree = temml.__renderToMathMLTree(tex, { ...OPTIONS, displayMode: isDisplay });
    return element(tree, 0);
  } catch {
    return null;
  }
}

function element(node, level) {
  if (level > MAX_LEVELS) throw new Error("it is nested too deeply");
  if (typeof node.text === "string") return node.text;
  const children = (node.children ?? []).map((child) => element(child, level + 1));
  // A fragment.
  if (!node.type) return children;
  if (!TAGS.has(node.type)) throw new Error(`${node.type} is not allowed`);
  return h(node.type, { ...chosen(node.attributes, ATTRIBUTES), style: chosen(node.style, STYLES) }, ...children);
}

const chosen = (fields, allowed) =>
  Object.fromEntries(Object.entries(fields ?? {}).filter(([name]) => allowed.has(name)));
