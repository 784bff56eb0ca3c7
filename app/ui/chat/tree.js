// Messages are a tree: an edit or another answer is a sibling, and nothing is ever overwritten. Pure.

/** From the beginning to `head`, oldest first. */
export function pathTo(messages, head) {
  const byId = new Map(messages.map((message) => [message.id, message]));
  const path = [];
  for (let next = byId.get(head); next; next = byId.get(next.parent)) path.push(next);
  return path.reverse();
}

/** Every message that follows the same one, in the order in which they came; `message` among them. */
export function siblingsOf(messages, message) {
  return messages.filter(({ parent }) => parent === message.parent);
}

/** The text of a message, whatever parts it came in. */
export function textOf({ content }) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? "").join("");
}

/** How many tokens of an answer's prompt were not computed; null where nobody knows. */
export function reusedTokens(message) {
  const tokens = message?.finish?.hob?.tokens;
  return tokens ? tokens.shared + tokens.memory + tokens.disk : null;
}
