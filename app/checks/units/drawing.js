import { Figures } from "/chat/all-figures.js";
import { emptyAnswer } from "/chat/answer.js";
import { conversationOf } from "/chat/conversation.js";
import { Message } from "/chat/message.js";
import { Stored } from "/chat/stored.js";
import { createStore, html, pause, render, t } from "/lib.js";
import { equal, test } from "./harness.js";

const MAX_TRIES = 250;

/** Draws into an element of the page while `body(place)` runs. */
async function inPlace(body) {
  const place = document.body.appendChild(document.createElement("div"));
  try {
    await body(place);
  } finally {
    render(null, place);
    place.remove();
  }
}

test("the messages before an answer are not drawn again when it begins and ends", () => inPlace(async (place) => {
  const conversation = conversationOf("drawn");
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
    const parts = { messages, path: messages, instructions: null, conversation, pending: [], keys: {}, hit: null };
    render(html`<${Stored} ...${parts} live=${live} />`, place);
    const buttons = () => [...place.querySelectorAll(".edit-message")];
    const areDrawn = () => buttons().length === 4 && buttons().every(({ disabled }) => disabled === Boolean(live));
    for (let tries = 0; !areDrawn() && tries < MAX_TRIES; tries += 1) await pause(20);
    equal(areDrawn(), true);
    return [...drawn];
  };
  equal(await draw(null), [1, 2, 3, 4]);
  // The fourth is not the last one meanwhile.
  equal(await draw({ began: 1, isStopping: false, answer: createStore(emptyAnswer()) }), [4]);
  equal(await draw(null), [4]);
}));

test("what a model has reasoned is folded, unless there is nothing else", () => inPlace((place) => {
  const conversation = conversationOf("reasoned");
  const isOpen = (fields) => {
    const message = { id: 1, parent: null, role: "assistant", reasoning_content: "hm", ...fields };
    render(html`<${Message} message=${message} conversation=${conversation} siblings=${[]} />`, place);
    return place.querySelector("[data-test=reasoning]").open;
  };
  equal(isOpen({ content: "It is four." }), false);
  equal(isOpen({ content: null }), true);
  equal(isOpen({ content: null, tool_calls: [{ function: { name: "add", arguments: "{}" } }] }), false);
}));

test("the figures of an answer count the guessed tokens and those that were right", () => inPlace((place) => {
  const conversation = conversationOf("guessed");
  const shown = (drafts) => {
    const finish = { hob: { ttft_ms: 5, tokens: { shared: 0, memory: 0, disk: 0, computed: 12 }, drafts } };
    render(html`<${Figures} finish=${finish} conversation=${conversation} />`, place);
    return place.querySelector("[data-test=figures]").textContent;
  };
  const all = t("numbers.drafts") + t("numbers.accepted", { n: 40, accepted: 30 });
  const ofModel = t("numbers.drafts.model") + t("numbers.accepted", { n: 10, accepted: 4 });
  const both = shown({ drafted: 40, accepted: 30, model_drafted: 10, model_accepted: 4 });
  equal([both.includes(all), both.includes(ofModel)], [true, true]);
  const own = shown({ drafted: 40, accepted: 30, model_drafted: 0, model_accepted: 0 });
  equal([own.includes(all), own.includes(t("numbers.drafts.model"))], [true, false]);
  const ofHeads = t("numbers.drafts.mtp") + t("numbers.accepted", { n: 9, accepted: 7 });
  const heads = shown({ drafted: 40, accepted: 30, model_drafted: 0, model_accepted: 0, mtp_drafted: 9, mtp_accepted: 7 });
  equal([heads.includes(ofHeads), own.includes(t("numbers.drafts.mtp"))], [true, false]);
  const none = shown({ drafted: 0, accepted: 0, model_drafted: 0, model_accepted: 0 });
  equal(none.includes(t("numbers.drafts")), false);
}));
