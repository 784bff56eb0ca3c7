// Markdown to tokens: CommonMark and GitHub's extensions, formulas and footnotes. Pure.
//
// - markdown-it parses in linear time and without recursion that hostile text could deepen.
// - `env.isGrowing`: the text goes on, so what is open at its end is closed for now.
// - `env.references`: the definitions of links and footnotes, by normalised label.

import MarkdownIt from "../../vendor/markdown-it.js";
import { autolinks } from "./autolinks.js";
import { footnotes } from "./footnotes.js";
import { formulas } from "./formulas.js";
import { strikethrough } from "./strikethrough.js";
import { tasks } from "./tasks.js";
import { openEnds } from "./open-ends.js";

/** `html`: HTML is recognised, so that it is shown as it was written. `./growing.js` draws it as text. */
export const parser = new MarkdownIt({ html: true, maxNesting: 100 })
  .use(strikethrough)
  .use(autolinks)
  .use(tasks)
  .use(footnotes)
  .use(formulas)
  .use(openEnds);
