// The figures of an answer and of a prompt on its way. Pure.

/** Tokens of the prompt by where they were; what was computed while the user typed is no memory. */
export function originsOf({ tokens, ahead }) {
  const { memory, disk, computed } = ahead ?? { memory: 0, disk: 0, computed: 0 };
  return {
    shared: tokens.shared - memory - disk - computed,
    memory: tokens.memory + memory,
    disk: tokens.disk + disk,
    // Answers of earlier versions do not say.
    away: tokens.away ?? 0,
    moved: tokens.moved ?? 0,
    ahead: computed,
    computed: tokens.computed,
  };
}

/** The tokens of a prompt that had KV. Answers of earlier versions do not say all of them. */
export function reusedOf({ shared = 0, memory = 0, disk = 0, away = 0, moved = 0 }) {
  return shared + memory + disk + away + moved;
}

/** How many tokens of the prompt needed no computing, and how many there are. */
export function rememberedOf(hob) {
  const origins = originsOf(hob);
  const remembered = reusedOf(origins);
  return { remembered, total: remembered + origins.ahead + origins.computed };
}

/** How many parts of the chat came back to its cells, and their tokens. */
export function broughtBack(hob) {
  const back = (hob?.moved ?? []).filter(({ way }) => way === "back");
  return { parts: back.length, tokens: back.reduce((sum, { tokens }) => sum + tokens, 0) };
}

/** The parts of a prompt on its way, in the order of the prompt: kind, and tokens. */
export function partsOf(progress) {
  const { tokens_total, tokens_ready } = progress;
  return [
    ["shared", progress.tokens_shared],
    ["memory", progress.tokens_from_memory],
    ["disk", progress.tokens_from_disk],
    ["away", progress.tokens_away ?? 0],
    ["moved", progress.tokens_moved ?? 0],
    ["computed", progress.tokens_computed],
    ["coming", Math.max(0, tokens_total - tokens_ready)],
  ];
}

const BLOCK_TOKENS = 64;

/** The kind of each of at most `most` cells: of the part to which its last token belongs. */
export function cellsOf(progress, most) {
  const cells = Math.min(most, Math.ceil(progress.tokens_total / BLOCK_TOKENS));
  const parts = partsOf(progress);
  const kinds = [];
  let [part, end] = [0, parts[0][1]];
  for (let cell = 1; cell <= cells; cell += 1) {
    const last = Math.round((cell * progress.tokens_total) / cells);
    while (end < last && part < parts.length - 1) {
      part += 1;
      end += parts[part][1];
    }
    kinds.push(parts[part][0]);
  }
  return kinds;
}
