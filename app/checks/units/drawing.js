import { conversationOf } from "/chat/conversation.js";
import { Stored } from "/chat/stored.js";
import { createStore, html, pause, render } from "/lib.js";
import { emptyAnswer } from "/chat/answer.js";
import { equal, test } from "./harness.js";

const MAX_TRIES = 250;

test("when an answer begins and when it ends, the messages before it are not drawn again", async () => {
  const conversation = conversationOf("drawn");
  const place = document.body.appendChild(document.createElement("div"));
  const drawn = new Set(); // the messages whose text was read
  const messages = [1, 2, 3, 4].map((id) => ({
    id,
    parent: id - 1 || null,
    role: id % 2 ? "user" : "assistant",
    get content() {
      drawn.add(id);
      return `text ${id}`;
    },
  }));
  const draw = async (live) => {
    drawn.clear();
    conversation.store.set({ live });
    const parts = { messages, path: messages, instructions: null, conversation, busy: Boolean(live), hit: null };
    render(html`<${Stored} ...${parts} />`, place);
    const buttons = () => [...place.querySelectorAll(".edit-message")];
    const areDrawn = () => buttons().length === 4 && buttons().every(({ disabled }) => disabled === Boolean(live));
    for (let tries = 0; !areDrawn() && tries < MAX_TRIES; tries += 1) await pause(20);
    equal(areDrawn(), true);
    return [...drawn];
  };
  try {
    equal(await draw(null), [1, 2, 3, 4]);
    // The fourth is not the last one meanwhile.
    equal(await draw({ began: 1, isStopping: false, answer: createStore(emptyAnswer()) }), [4]);
    equal(await draw(null), [4]);
  } finally {
    render(null, place);
    place.remove();
  }
});
