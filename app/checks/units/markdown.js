import { fences } from "/chat/fences.js";
import { Markdown } from "/chat/rich-text.js";
import { h, render } from "/lib.js";
import { highlight } from "/lib/highlight.js";
import { decodeHTMLStrict } from "/lib/markdown/characters.js";
import { parser } from "/lib/markdown/parser.js";
import { equal, test } from "./harness.js";

/** A message as it grows: `grow(text)` while it streams, `end(text)` at its end. */
function message() {
  const root = document.createElement("div");
  const draw = (text, isOver) => render(h(Markdown, { text, isOver }), root);
  return { root, grow: (text) => draw(text, false), end: (text) => draw(text, true) };
}

function rendered(...texts) {
  const { root, grow, end } = message();
  texts.forEach(grow);
  end(texts.at(-1));
  return root;
}

const growing = (text) => {
  const { root, grow } = message();
  grow(text);
  return root.innerHTML.replaceAll(' dir="auto"', "").replaceAll(' rel="noreferrer noopener"', "");
};

const prefixes = (text) => [...text].map((_, at, letters) => letters.slice(0, at + 1).join(""));

test("Markdown becomes elements, and HTML stays text", () => {
  equal(
    rendered("a **b** <b>c</b>").innerHTML,
    '<p dir="auto">a <strong>b</strong> &lt;b&gt;c&lt;/b&gt;</p>',
  );
});

test("a named character is looked up, and nothing but a name", () => {
  const decoded = ["&auml;", "&ngE;", "&Tab;", "&semi;", "&lt;", "&nbsp;"].map(decodeHTMLStrict);
  equal(decoded, ["ä", "≧̸", "\t", ";", "<", "\u00a0"]);
  const others = ["&notit;", "&nothing;", "&not", "&<b>;", "<img src=x>", "&lt;<b>", "&#65;"];
  equal(others.map(decodeHTMLStrict), others);
});

test("Markdown that grows is the same as all of it at once", () => {
  const text = "# Head\n\n- one\n- `two`\n\n```js\nlet a;\n```\n";
  equal(rendered(...prefixes(text)).innerHTML, rendered(text).innerHTML);
});

test("Markdown that grows by pieces of any length is the same as all of it at once", async () => {
  const names = ["commonmark-0.31.2", "gfm-0.29"];
  const read = async (name) => (await fetch(`/units/specs/${name}.json`)).json();
  const examples = (await Promise.all(names.map(read))).flat().map(({ markdown }) => markdown);
  const texts = [...examples, ...STREAMED];
  const random = generator(20_261_122);
  for (let run = 0; run < 400; run += 1) {
    const chosen = Array.from({ length: 1 + random(4) }, () => texts[random(texts.length)]);
    const text = chosen.join(random(2) ? "\n" : "");
    const cuts = [];
    for (let at = 1; at < text.length; at += 1 + random(random(2) ? 4 : 40)) cuts.push(text.slice(0, at));
    const [grown, whole] = [rendered(...cuts, text), rendered(text)];
    grown.normalize();
    whole.normalize();
    if (!grown.isEqualNode(whole)) equal(grown.innerHTML, whole.innerHTML);
  }
});

/** What a later line changes. */
const STREAMED = [
  "$$\na\n+ b\n$$\n\nc\n",
  "a[^1]\n\n[^1]: a note\n\nb\n",
  "- a\n\n  b\n- c\n",
  "> a\nb\n\n# h\n",
  "x [foo] y\n\nz\n\n[foo]: /url\n  'title'\n\n[foo]\n",
  "text\n| a | b |\n|---|---|\n| 1 | 2 |\n\n",
  "a\r\n\r\nb\r\n",
];

function generator(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test("Markdown that changes from its start is rendered again", () => {
  equal(rendered("one *two*", "three").textContent, "three");
});

test("a finished block keeps its elements and the selection in it", () => {
  const { root, grow } = message();
  document.body.append(root);
  grow("First *one*.\n\nSecond.");
  const paragraphs = [...root.querySelectorAll("p")];
  getSelection().selectAllChildren(paragraphs[0]);
  for (const text of prefixes("\n\n- a\n- b\n\n```\ncode\n```\n\n# End")) grow(`First *one*.\n\nSecond.${text}`);
  equal(paragraphs.map((one) => root.contains(one)), [true, true]);
  equal(String(getSelection()), "First one.");
  root.remove();
});

test("the cost of an update does not grow with the text before it", () => {
  const { grow } = message();
  const parse = parser.parse;
  let letters = 0;
  parser.parse = (source, env) => {
    letters += source.length;
    return parse.call(parser, source, env);
  };
  try {
    let text = "";
    let late = 0;
    for (let number = 0; number < 400; number += 1) {
      if (number === 390) late = letters;
      for (const word of ["A ", "**para", "graph** ", "of some words. ", "\n\n"]) grow(text += word);
    }
    equal(letters - late < 10 * 5 * 120, true);
  } finally {
    parser.parse = parse;
  }
});

test("one long block is parsed again only as it grows by a quarter", () => {
  const { root, grow, end } = message();
  const parse = parser.parse;
  let parses = 0;
  parser.parse = (...of) => {
    parses += 1;
    return parse.apply(parser, of);
  };
  try {
    let text = "word ".repeat(5000);
    for (let step = 0; step < 200; step += 1) grow(text += "more words ");
    equal(parses < 5, true);
    equal(root.textContent.replace(/\s/g, ""), text.replace(/\s/g, ""));
    end(text);
    equal(root.textContent.trim(), text.trim());
  } finally {
    parser.parse = parse;
  }
});

test("what is open at the end looks as it will when it is closed", () => {
  equal(growing("a **b"), "<p>a <strong>b</strong></p>");
  equal(growing("a *b **c d"), "<p>a <em>b <strong>c d</strong></em></p>");
  equal(growing("x `co de"), "<p>x <code>co de</code></p>");
  equal(growing("see [label](http://ex"), "<p>see <a>label</a></p>");
  equal(growing("5*3 and"), "<p>5*3 and</p>");
  equal(growing("text\n-"), "<p>text</p>");
  equal(growing("| a | b |\n|--"), "");
  equal(message().root.querySelector("pre"), null);
  const { root, grow } = message();
  grow("```js\nlet a;\nlet");
  equal(root.querySelector("pre code").textContent, "let a;\nlet");
});

test("an image becomes a link with its text", () => {
  const root = rendered("![a cat](https://example.com/cat.png)");
  equal(root.querySelectorAll("img").length, 0);
  equal(root.querySelector("a").getAttribute("href"), "https://example.com/cat.png");
});

test("only links to http, https and mailto can be followed", () => {
  const root = rendered("[a](/a) [b](https://b.org) [c](ftp://c.org) [d](mailto:d@d.org) <https://e.org>");
  const addresses = [...root.querySelectorAll("a")].map((link) => link.getAttribute("href"));
  equal(addresses, [null, "https://b.org/", null, "mailto:d@d.org", "https://e.org/"]);
});

test("Markdown that is nested too deeply is shown as plain text", () => {
  const text = `${"> ".repeat(60)}deep`;
  const root = rendered(text);
  equal(root.querySelector("pre.plain")?.textContent, text);
});

test("hostile nesting and repetition neither hang nor lose a letter", () => {
  const many = 20_000;
  const hostile = "> [ * _a_ [a]( ![a](< `a`` ~~a $a \\( <!-- 1. a@ www.".split(" ");
  for (const text of [...hostile, "_a ", "~~a ", "$a ", "1. "]) {
    const whole = text.repeat(many);
    const began = performance.now();
    equal(rendered(`${whole}end`).textContent.includes("end"), true);
    equal(performance.now() - began < 20_000, true);
  }
  const deep = Array.from({ length: 300 }, (_, level) => `${" ".repeat(level * 2)}- a`).join("\n");
  equal(rendered(deep).querySelector("pre.plain")?.textContent, deep);
});

test("a formula is recognised by pandoc's rule for dollars", () => {
  const formulas = (text) => [...rendered(text).querySelectorAll(".formula")].map((one) => one.textContent);
  equal(formulas("costs $5 and $6, or $7-$8"), []);
  equal(formulas("$x^2$ and \\(y_1\\)"), ["x^2", "y_1"].map((tex) => formulas(`$${tex}$`)[0]));
  equal(formulas("`$x$` \\$x$").length, 0);
  equal(formulas("text \\[ a \\] text\n\n$$\nb\n+ c\n$$").length, 2);
});

test("four harmless tags are elements where they are closed", () => {
  equal(
    rendered("H<sub>2</sub>O<br>x<sup>2 <kbd>K</kbd>").innerHTML,
    '<p dir="auto">H<sub>2</sub>O<br>x&lt;sup&gt;2 <kbd>K</kbd></p>',
  );
});

test("a footnote is shown where it is defined, and is no link", () => {
  const root = rendered("A claim[^1], and [^none].\n\n[^1]: Its *source*.");
  equal(root.querySelector("a"), null);
  equal(root.querySelector(".footnote-mark").textContent, "1");
  equal(root.querySelector(".footnote").textContent, "1Its source.");
  equal(root.querySelector("p").textContent, "A claim1, and [^none].");
});

test("code in a list has the indent of its own lines", () => {
  const root = rendered("1. Install:\n\n   ```sh\n   sudo apt install nginx\n     --yes\n   ```\n\n   Then go on.\n");
  equal(root.querySelector("pre code").textContent, "sudo apt install nginx\n  --yes");
  equal(root.querySelector("li > p:last-child").textContent, "Then go on.");
});

test("a task's box is named, and its item has no other mark", () => {
  const root = rendered("- [x] buy milk\n- [ ] rest");
  const boxes = [...root.querySelectorAll("li.task > input[disabled]")];
  equal(boxes.map((box) => [box.getAttribute("aria-label"), box.checked]), [["buy milk", true], ["rest", false]]);
});

test("the pieces of highlighted code are the code", () => {
  const code = "fn main() { // start\n  let x: &'a str = \"1\"; 0x1f\n}";
  for (const language of ["rust", "js", "py", "sql", "html", "css", "json", "diff", "hs", "unknown", ""]) {
    equal(highlight(code, language).map(([, text]) => text).join(""), code);
  }
  const kinds = new Map(highlight(code, "rust").map(([kind, text]) => [text, kind]));
  equal(
    ["fn", "main", "// start", "let", '"1"', "0x1f"].map((text) => kinds.get(text)),
    ["keyword", "call", "comment", "keyword", "string", "number"],
  );
});

test("the user's fenced code is found, and the rest is left as it is", () => {
  equal(fences("a\n```py\nx = 1\n\ny\n```\nb"), [
    { text: "a" },
    { code: "x = 1\n\ny", language: "py" },
    { text: "b" },
  ]);
  equal(fences("a\n```\nno end\n"), [{ text: "a\n```\nno end\n" }]);
});
