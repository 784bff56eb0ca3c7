// GitHub's task lists: an item that begins with `[ ]` or `[x]`. Pure.

export function tasks(md) {
  md.core.ruler.before("inline", "tasks", ({ tokens }) => {
    tokens.forEach((token, at) => {
      const box = token.type === "inline" && /^\[([ xX])\](?=\s)/.exec(token.content);
      if (!box || tokens[at - 2]?.type !== "list_item_open") return;
      tokens[at - 2].meta = { isChecked: box[1] !== " ", name: token.content.slice(3).trim() };
      token.content = token.content.slice(3);
    });
  });
}
