// Where words occur in elements, as ranges of their text.

const MAX_MATCHES = 2000;
/** Not a part of what was said. */
const LEFT_OUT = ".under, .tools, .hidden-text, .code-bar, form";

/** The places of the words in a text: `[start, end]`. Case is ignored. Pure. */
export function placesOf(text, words) {
  const pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+"), "giu");
  return [...text.matchAll(pattern)].map(({ index, 0: found }) => [index, index + found.length]);
}

/** Words are found across elements within a message, but not across messages. */
export function matchesIn(messages, words) {
  const ranges = [];
  for (const message of messages) {
    const nodes = textNodesOf(message);
    const text = nodes.map(({ data }) => data).join("");
    for (const place of placesOf(text, words)) {
      if (ranges.length === MAX_MATCHES) return ranges;
      ranges.push(rangeOf(nodes, place));
    }
  }
  return ranges;
}

function textNodesOf(element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, (node) => {
    if (node.nodeType === Node.TEXT_NODE) return NodeFilter.FILTER_ACCEPT;
    return node.matches(LEFT_OUT) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP;
  });
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  return nodes;
}

function rangeOf(nodes, [start, end]) {
  const range = new Range();
  let at = 0;
  for (const node of nodes) {
    const next = at + node.length;
    if (start >= at && start < next) range.setStart(node, start - at);
    if (end > at && end <= next) {
      range.setEnd(node, end - at);
      return range;
    }
    at = next;
  }
  return range;
}
