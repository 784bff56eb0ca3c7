// The documents in a chat's composer, until they are sent.
//
// - A file becomes a document of the library; pasted text belongs to its chat. Of a private chat both stay
//   in memory.
// - The first document of a new chat is computed at once: the prompt will begin with it. Others are
//   computed with their message, because their place is behind what was said before.
// - A picture beside pasted words is refused and shown, and does not hold the words back.

import { createStore, isCancelled, isUnreachable, t } from "/lib.js";
import { toast } from "/parts.js";
import { addDocument, dropDocument, readDocument, removeDocument, viewDocument } from "../documents/api.js";
import { documentState } from "../documents/words.js";
import { drafts } from "./drafts.js";

/** The ids of pasted texts that were sent: one may come back, also in the branch of a chat. */
const pasted = new Set();

/** `isNew()`: the chat has no message yet. `draftName()`: under which a reload finds them; or null. */
export function createAttachments({ isPrivate, isNew, profile, draftName }) {
  const store = createStore({ items: [] });
  const controllers = new Map();
  let lastKey = 0;

  const change = (key, fields) => store.set(({ items }) => ({
    items: items.map((item) => (item.key === key ? { ...item, ...fields } : item)),
  }));
  const itemOf = (key) => store.get().items.find((item) => item.key === key);
  const isOfMessage = (item) => !(item.isBeside && item.error);
  const ofMessage = () => store.get().items.filter(isOfMessage);

  function append(fields) {
    const item = { key: ++lastKey, id: null, view: null, progress: null, error: null, ...fields };
    store.set(({ items }) => ({ items: [...items, item] }));
    return item.key;
  }

  /** Runs `work(signal)`; the chip shows its failure, and has `again`, which runs it once more. */
  async function run(key, work) {
    const controller = new AbortController();
    controllers.set(key, controller);
    change(key, { error: null });
    try {
      await work(controller.signal);
    } catch (error) {
      if (!isCancelled(error)) change(key, { error, progress: null, again: () => run(key, work) });
    } finally {
      if (controllers.get(key) === controller) controllers.delete(key);
    }
  }

  const keepOf = (isPasted) => (isPrivate() ? "private" : isPasted ? "chat" : "library");

  /** `isBeside`: pasted with words, of which it may be the picture. */
  function add(file, { name = file.name, isPasted = false, isBeside = false } = {}) {
    const key = append({ name, isPasted, isBeside });
    return run(key, async (signal) => {
      const options = { name, keep: keepOf(isPasted), profile: profile(), signal };
      const view = await addDocument(file, options);
      if (store.get().items.some(({ id }) => id === view.id)) return take([key]);
      change(key, { id: view.id, name: view.name, view });
      save();
      await read(key, signal);
    });
  }

  /** Documents of the library, and those of a composer before a reload. */
  function addStored(id, name, isPasted = false) {
    if (store.get().items.some((item) => item.id === id)) return undefined;
    const key = append({ id, name, isPasted });
    save();
    return look(key);
  }

  /** Asks what the document costs and what of it is ready, and reads it where that helps. */
  const look = (key) => run(key, async (signal) => {
    const view = await viewDocument(itemOf(key).id, profile());
    change(key, { name: view.name, view });
    await read(key, signal);
  });

  async function read(key, signal) {
    const item = itemOf(key);
    const isFirst = store.get().items[0]?.key === key;
    if (!item || !isFirst || !isNew() || isPrivate() || documentState(item) !== "unread") return;
    const show = (progress) => change(key, { progress });
    const view = await readDocument(item.id, { profile: profile(), show, signal });
    change(key, { view, progress: null });
  }

  /** Takes them out of the composer and ends what is under way for them. */
  function take(keys) {
    const taken = store.get().items.filter(({ key }) => keys.includes(key));
    store.set(({ items }) => ({ items: items.filter(({ key }) => !keys.includes(key)) }));
    keys.forEach((key) => controllers.get(key)?.abort());
    save();
    return taken;
  }

  function remove(key) {
    const [item] = take([key]);
    if (!item?.id) return;
    if (item.isPasted || isPrivate()) return dropDocument(item.id);
    const removeToo = { label: t("document.remove"), act: () => removeDocument(item.id) };
    toast(t("document.stays", item), removeToo);
  }

  function save() {
    const items = store.get().items.filter(({ id }) => id);
    const saved = items.map(({ id, name, isPasted }) => ({ id, name, isPasted }));
    drafts.write(nameOf(), saved.length ? JSON.stringify(saved) : "");
  }

  const nameOf = () => (draftName() === null ? null : `${draftName()}.documents`);

  const saved = drafts.read(nameOf());
  if (saved) JSON.parse(saved).forEach(({ id, name, isPasted }) => addStored(id, name, isPasted));

  return {
    store,
    add,
    addStored,
    remove,
    /** The daemon answers again. */
    tryAgain() {
      const failed = store.get().items.filter(({ error }) => isUnreachable(error));
      failed.forEach(({ key, id, again }) => (id ? look(key) : again()));
    },
    /** The context has another size. */
    lookAgain: () => store.get().items.filter(({ id }) => id).forEach(({ key }) => look(key)),
    /** Whether every one can be sent. */
    areReady: () => ofMessage().every((item) => item.id && !item.error && documentState(item) !== "too-long"),
    areRead: () => ofMessage().every((item) => documentState(item) === "ready"),
    isEmpty: () => ofMessage().length === 0,
    /** The fields by which what is computed while the user types stands behind them. */
    ahead() {
      const documents = ofMessage().map(({ id }) => id);
      return documents.length ? { messages: [{ role: "user", content: "", hob: { documents } }] } : {};
    },
    /** Whether one is not in the library yet. */
    areComing: () => store.get().items.some((item) => !item.id && !item.error),
    /** Those of a message: `{ id, name }` each. */
    send() {
      const items = take(store.get().items.map(({ key }) => key)).filter(isOfMessage);
      const unfinished = items.find((item, index) => index === 0 && item.progress);
      items.filter(({ isPasted }) => isPasted).forEach(({ id }) => pasted.add(id));
      return { documents: items.map(({ id, name }) => ({ id, name })), unfinished };
    },
    /** The message was not sent. */
    restore: (documents) => documents.forEach(({ id, name }) => addStored(id, name, pasted.has(id))),
  };
}
