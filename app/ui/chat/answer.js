// An answer as it is assembled from streamed deltas. Pure.

export const emptyAnswer = () => ({ text: "", reasoning: "", calls: [] });

/** Adds a delta to the answer in place; false when there was none. */
export function addDelta(answer, delta) {
  if (!delta) return false;
  answer.text += delta.content ?? "";
  answer.reasoning += delta.reasoning_content ?? "";
  for (const piece of delta.tool_calls ?? []) {
    const index = piece.index ?? answer.calls.length;
    answer.calls[index] ??= { function: { name: "", arguments: "" } };
    const call = answer.calls[index].function;
    call.name += piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
  }
  return true;
}
