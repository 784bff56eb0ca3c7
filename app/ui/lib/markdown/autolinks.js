// GitHub's extended autolinks: http, https and ftp addresses, `www.`, and e-mail addresses. Pure.

const SCHEME = /(?:^|[^\p{L}\p{N}])(https?|ftp)$/iu;
const WWW = /(?:^|[\s*_~(])(?=www\.[^\s<])/gi;
const LOCAL = /[A-Za-z0-9._+-]/;
const HOST = /^@[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*/;
const MAX_SCHEME = 6;

export function autolinks(md) {
  md.inline.ruler.before("linkify", "address", readAddress);
  md.core.ruler.at("linkify", ({ tokens, md, Token }) => {
    for (const token of tokens) {
      if (token.type === "inline" && /@|www\./i.test(token.content)) {
        token.children = linked(token.children, md, Token);
      }
    }
  });
}

function readAddress(state, silent) {
  const { src, pos, linkLevel } = state;
  if (linkLevel > 0 || !src.startsWith("://", pos)) return false;
  const [, scheme] = SCHEME.exec(state.pending.slice(-MAX_SCHEME)) ?? [];
  if (!scheme) return false;
  const text = scheme + trimmed(/^[^\s<]*/.exec(src.slice(pos, state.posMax))[0]);
  if (!isDomain(text.slice(scheme.length + 3), 1)) return false;
  const href = state.md.normalizeLink(text);
  if (!state.md.validateLink(href)) return false;
  if (!silent) {
    state.pending = state.pending.slice(0, -scheme.length);
    state.push("link_open", "a", 1).attrs = [["href", href]];
    state.push("text", "", 0).content = text;
    state.push("link_close", "a", -1);
  }
  state.pos += text.length - scheme.length;
  return true;
}

/** The first part of an address; no underscore in its last two names. */
function isDomain(text, minNames) {
  const [domain] = /^[\p{L}\p{N}\p{S}_.-]*/u.exec(text);
  const names = domain.replace(/\.$/, "").split(".");
  if (!names[0] || names.length < minNames) return false;
  return !names.slice(-2).some((name) => name.includes("_"));
}

/** Without the punctuation and the parentheses that belong to the sentence around it. */
function trimmed(text) {
  let surplus = count(text, ")") - count(text, "(");
  let end = text.length;
  for (; end > 0; end -= 1) {
    const last = text[end - 1];
    if (last === ")") {
      if (surplus <= 0) break;
      surplus -= 1;
    } else if (last === ";") {
      const entity = /&[A-Za-z0-9]{1,32};$/.exec(text.slice(Math.max(0, end - 34), end));
      if (!entity) break;
      end -= entity[0].length - 1;
    } else if (!"?!.,:*_~'\"".includes(last)) break;
  }
  return text.slice(0, end);
}

const count = (text, letter) => text.split(letter).length - 1;

function linked(children, md, Token) {
  let depth = 0;
  return children.flatMap((token) => {
    if (token.type === "link_open") depth += 1;
    if (token.type === "link_close") depth -= 1;
    if (depth > 0 || token.type !== "text") return token;
    const found = [...addressesOf(token.content)];
    return found.length ? pieces(token, found, md, Token) : token;
  });
}

/** `{ at, text, href }` in order, none within another. */
function addressesOf(text) {
  const found = [];
  for (const match of text.matchAll(WWW)) {
    const at = match.index + match[0].length;
    const address = trimmed(/^[^\s<]*/.exec(text.slice(at))[0]);
    if (isDomain(address, 2)) found.push({ at, text: address, href: `http://${address}` });
  }
  let from = 0;
  for (let at = text.indexOf("@"); at !== -1; at = text.indexOf("@", at + 1)) {
    const mail = mailAround(text, at, from);
    if (mail) found.push(mail);
    from = at + 1;
  }
  found.sort((one, other) => one.at - other.at);
  return found.filter(({ at }, index) => !index || at >= found[index - 1].at + found[index - 1].text.length);
}

function mailAround(text, at, from) {
  let begin = at;
  while (begin > from && LOCAL.test(text[begin - 1])) begin -= 1;
  const host = HOST.exec(text.slice(at, at + 256))?.[0] ?? "";
  if (begin === at || !host.includes(".") || /[-_]$/.test(host)) return null;
  const mail = text.slice(begin, at) + host;
  return { at: begin, text: mail, href: `mailto:${mail}` };
}

function pieces(token, found, md, Token) {
  const made = [];
  const push = (type, tag, nesting, fields) =>
    made.push(Object.assign(new Token(type, tag, nesting), { level: token.level, ...fields }));
  let from = 0;
  for (const { at, text, href } of found) {
    push("text", "", 0, { content: token.content.slice(from, at) });
    push("link_open", "a", 1, { attrs: [["href", md.normalizeLink(href)]] });
    push("text", "", 0, { content: text });
    push("link_close", "a", -1, {});
    from = at + text.length;
  }
  push("text", "", 0, { content: token.content.slice(from) });
  return made.filter(({ type, content }) => type !== "text" || content);
}
