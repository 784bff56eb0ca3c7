// An answer as it is assembled from streamed deltas. Pure.

/** `begun`: the message that goes on. */
export const emptyAnswer = (begun) => ({
  ...partsOf(begun),
  // the latest report of the prompt
  progress: null,
  // the prompt is computed
  hasBegun: false,
});

function partsOf(message) {
  return {
    text: message?.content ?? "",
    reasoning: message?.reasoning_content ?? "",
    calls: structuredClone(message?.tool_calls ?? []),
  };
}

/** Adds a chunk of the stream to the answer in place; false when it changes nothing. */
export function addChunk(answer, { choices, hob }) {
  // Its stored text may be newer.
  if (hob?.continued) Object.assign(answer, partsOf(hob.continued));
  if (hob?.progress) {
    answer.progress = hob.progress;
    return true;
  }
  return addDelta(answer, choices?.[0]?.delta);
}

function addDelta(answer, delta) {
  if (!delta) return false;
  answer.hasBegun = true;
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
