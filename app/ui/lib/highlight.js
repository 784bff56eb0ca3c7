// The colours of code: comments, strings, numbers, keywords and names, by one regular expression a language
// family. Pure, in linear time, and right for most code: it knows words, not grammar.

const KEYWORDS = {
  c: `abstract alignas as asm async auto await bool boolean break byte case catch char class const constexpr continue
    def default defer delete do double dyn else enum explicit export extends extern false final finally float fn for
    foreach friend from func function go goto guard if impl implements import in inline instanceof int interface
    internal is lambda let long loop map match mod module move mut namespace native new nil null nullptr object of
    operator out override package panic private protected pub public range readonly ref register return sealed select
    self Self short signed sizeof static static_assert string struct super switch synchronized template this throw
    throws trait transient true try type typedef typeof typename undefined union unsafe unsigned use using val var
    virtual void volatile when where while with yield`,
  hash: `alias and as assert async await begin break case class continue def defined del do done elif else elsif end
    ensure esac except exit export false False fi finally for from function global if import in is lambda local module
    next nil None nonlocal not null or pass puts raise redo require rescue retry return self set super switch then
    true True try undef unless until unset when while with yield echo cd sudo`,
  sql: `add all alter and any as asc begin between by case cast check column commit constraint create cross database
    default delete desc distinct drop else end exists explain false foreign from full group having if in index inner
    insert into is join key left like limit not null offset on or order outer over partition primary references
    returning right rollback select set table then true union unique update using values view when where with`,
  lua: `and break do else elseif end false for function goto if in local nil not or repeat return then true until while
    case class data deriving import infix instance let module newtype of type where`,
};

const STRING = `"(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?`;
const NUMBER = "\\b(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)[a-zA-Z]*\\b";
const NAME = "[A-Za-z_$][\\w$]*";

/** The end of the text: `$` is that of a line. */
const END = "(?![^])";
const C_COMMENT = `\\/\\/.*|\\/\\*[^]*?(?:\\*\\/|${END})`;
const C = family(C_COMMENT, `\`(?:[^\`\\\\]|\\\\[^])*\`?|${STRING}`, "c");
// A Rust lifetime is no string.
const RUST = family(C_COMMENT, `"(?:[^"\\\\]|\\\\[^])*"?|'(?:[^'\\\\\\n]|\\\\.)'`, "c");
const HASH = family("#.*", `"""[^]*?(?:"""|${END})|'''[^]*?(?:'''|${END})|${STRING}`, "hash");
const SQL = family(`--.*|\\/\\*[^]*?(?:\\*\\/|${END})`, STRING, "sql", "i");
const LUA = family(`--.*|\\{-[^]*?(?:-\\}|${END})`, STRING, "lua");
const CSS_KEY = "(?<![\\w-])[@.#]?-?[A-Za-z_][\\w-]*(?=\\s*[:{(,])";
const CSS = family(`\\/\\*[^]*?(?:\\*\\/|${END})`, STRING, null, "", CSS_KEY);
const DATA = family("#.*|\\/\\/.*|^;.*", STRING, "c", "", "(?<![\\w.-])[\\w.-]+(?=\\s*[:=])|^\\s*\\[[^\\]\\n]*\\]");
const MARKUP = {
  pattern: /(?<comment><!--[^]*?(?:-->|$))|(?<keyword><[\/!?]?[\w:-]+|\/?>)|(?<string>"[^"]*"?)/g,
  words: new Set(),
};
const DIFF = { pattern: /(?<added>^\+.*)|(?<removed>^-.*)|(?<keyword>^@@.*|^diff .*)/gm, words: new Set() };

const LANGUAGES = new Map([
  [C, "c h cpp c++ cc cxx hpp cs csharp c# java js javascript jsx mjs ts typescript tsx go golang kotlin kt swift " +
    "php scala dart zig groovy objc glsl proto solidity v"],
  [RUST, "rust rs"],
  [HASH, "py python python3 rb ruby sh bash zsh shell console fish perl pl r make makefile dockerfile docker " +
    "elixir ex powershell ps1 nix julia jl cmake nginx graphql tcl awk"],
  [SQL, "sql sqlite postgres postgresql mysql plsql"],
  [LUA, "lua haskell hs elm ada"],
  [CSS, "css scss less sass"],
  [DATA, "json jsonc json5 yaml yml toml ini conf cfg env properties hcl terraform tf"],
  [MARKUP, "html htm xml svg vue xhtml"],
  [DIFF, "diff patch"],
].flatMap(([rules, names]) => names.split(" ").map((name) => [name, rules])));

/** Longer code has no colours. */
const MAX_LETTERS = 20_000;

/** `[kind, text]` in order; the kind is null for plain text. The texts joined are the code. */
export function highlight(code, language) {
  const rules = LANGUAGES.get(language.toLowerCase());
  if (!rules || code.length > MAX_LETTERS) return [[null, code]];
  const pieces = [];
  let from = 0;
  for (const match of code.matchAll(rules.pattern)) {
    const kind = kindOf(match, rules);
    if (!kind || !match[0]) continue;
    if (match.index > from) pieces.push([null, code.slice(from, match.index)]);
    pieces.push([kind, match[0]]);
    from = match.index + match[0].length;
  }
  if (from < code.length) pieces.push([null, code.slice(from)]);
  return pieces;
}

function kindOf({ 0: text, groups }, { words, isCaseless }) {
  const [kind] = Object.entries(groups).find(([, found]) => found !== undefined);
  if (kind !== "name") return kind === "call" && words.has(text) ? "keyword" : kind;
  return words.has(isCaseless ? text.toLowerCase() : text) ? "keyword" : null;
}

function family(comment, string, words, flags = "", key = null) {
  const parts = [
    `(?<comment>${comment})`,
    key && `(?<key>${key})`,
    `(?<string>${string})`,
    `(?<number>${NUMBER})`,
    `(?<call>${NAME}(?=\\())`,
    `(?<name>${NAME})`,
  ];
  return {
    pattern: new RegExp(parts.filter(Boolean).join("|"), `gm${flags}`),
    words: new Set(words ? KEYWORDS[words].split(/\s+/) : []),
    isCaseless: flags === "i",
  };
}
