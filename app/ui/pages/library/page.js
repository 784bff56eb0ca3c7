// The library: documents that are ready to be asked about, and where new ones are dropped.

import {
  ago,
  classes,
  every,
  formatter,
  go,
  html,
  t,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useStore,
} from "/lib.js";
import { ask, Button, Icon, IconButton, orToast, useNextFocus } from "/parts.js";
import { Reading } from "/parts/reading.js";
import { newChatAbout } from "../../chat/about.js";
import { addDocument, listDocuments, readDocument, removeDocument } from "../../documents/api.js";
import { Bar } from "../../documents/chip.js";
import { drops, takeDrops } from "../../documents/drops.js";
import { documentInWords, documentState } from "../../documents/words.js";

/** Chats and the sweep change what is ready. */
const REFRESH_MS = 3000;

let lastKey = 0;

export function Page() {
  const [documents, setDocuments] = useState(null);
  // of the last reading; the next one follows soon
  const [error, setError] = useState(null);
  // files on their way: `{ key, name, error }`
  const [incoming, setIncoming] = useState([]);
  // by id, while a document is read
  const [progress, setProgress] = useState({});
  useNextFocus(() => document.querySelector(".library-drop button"));
  const isOver = useStore(drops, ({ isOver }) => isOver);
  const refresh = () => listDocuments().then((list) => {
    setDocuments(list);
    setError(null);
  }, setError);

  async function read({ id }) {
    const show = (now) => setProgress((all) => ({ ...all, [id]: now }));
    await orToast(readDocument(id, { show }));
    setProgress(({ [id]: done, ...others }) => others);
    await refresh();
  }

  /** One after the other: the model reads one at a time. */
  async function add(files) {
    for (const file of files) {
      lastKey += 1;
      const row = { key: lastKey, name: file.name, error: null };
      const leave = () => setIncoming((rows) => rows.filter(({ key }) => key !== row.key));
      setIncoming((rows) => [...rows, { ...row, leave }]);
      try {
        const view = await addDocument(file, { name: file.name, keep: "library" });
        leave();
        await refresh();
        if (documentState({ view }) === "unread") await read(view);
      } catch (error) {
        setIncoming((rows) => rows.map((other) => (other.key === row.key ? { ...other, error } : other)));
      }
    }
  }

  useLayoutEffect(() => takeDrops(add), []);
  useEffect(() => {
    refresh();
    return every(REFRESH_MS, refresh);
  }, []);
  if (!documents) return html`<${Reading} words=${t("memory.reading")} error=${error} />`;
  const isEmpty = !documents.length && !incoming.length;
  return html`
    <p class="note">${t("library.what")}</p>
    <div class=${classes("library-drop", isOver && "over")}>
      <p class="note">${t("library.empty")}</p><${AddFiles} add=${add} />
    </div>
    ${!isEmpty && html`
      <ul class="bare-list library" data-test="library">
        ${incoming.map((file) => html`<${Incoming} key=${file.key} ...${file} />`)}
        ${documents.map((view) => html`
          <${Row}
            key=${view.id}
            view=${view}
            progress=${progress[view.id]}
            read=${read}
            refresh=${refresh}
          />`)}
      </ul>`}`;
}

function AddFiles({ add }) {
  const field = useRef();
  const chosen = (event) => {
    add([...event.target.files]);
    event.target.value = "";
  };
  return html`
    <${Button} icon="plus" onClick=${() => field.current.click()}>${t("library.add")}<//>
    <input type="file" multiple hidden ref=${field} onChange=${chosen} data-test="library-file" />`;
}

/** One that failed stays until it is closed. */
function Incoming({ name, error, leave }) {
  return html`
    <li class="card library-row" data-test="library-incoming">
      <${Icon} name="document" />
      <div class="grow">
        <div class="document-name" dir="auto">${name}</div>
        <div class=${classes("note", error && "error")} role=${error && "alert"}>
          ${documentInWords({ view: null, error })}
        </div>
      </div>
      ${error && html`<${IconButton} small icon="close" label=${t("close")} onClick=${leave} />`}
    </li>`;
}

function Row({ view, progress, read, refresh }) {
  const { id, name, conversations, used_at: usedAt } = view;
  const item = { view, progress };
  const state = documentState(item);
  const words = documentInWords(item);
  const remove = async () => {
    const question = { title: t("library.remove.title", { name }), text: t("library.remove.text") };
    if (!(await ask({ ...question, yes: t("library.remove"), danger: true }))) return;
    await orToast(removeDocument(id));
    await refresh();
  };
  const start = () => {
    newChatAbout({ id, name });
    go("chat");
  };
  return html`
    <li class="card library-row" data-test="library-row" data-state=${state}>
      <${Icon} name="document" />
      <div class="grow">
        <h2 class="document-name" dir="auto">${name}</h2>
        <div class="note figure" data-test="library-words">
          <strong class=${classes("document-state", state)}>${words}</strong>
        </div>
        ${progress && html`<${Bar} progress=${progress} words=${words} />`}
        <div class="note figure">${factsOf(view, usedAt, conversations).join(" · ")}</div>
      </div>
      <div class="row library-actions">
        ${state === "unread" && html`<${Button} onClick=${() => read(view)}>${t("library.read")}<//>`}
        <${Button} kind="primary" onClick=${start} data-test="library-start">${t("library.start")}<//>
        <${Button} onClick=${remove} data-test="library-remove">${t("library.remove")}<//>
      </div>
    </li>`;
}

function factsOf({ kv_bytes: bytes, ttl, expires_at: end }, usedAt, conversations) {
  const date = end && formatter(Intl.DateTimeFormat, { dateStyle: "medium" }).format(end * 1000);
  return [
    bytes > 0 && t("library.size", { bytes }),
    ttl && (end ? t("library.until", { date }) : t("library.kept")),
    t("library.chats", { n: conversations }),
    t("library.used", { ago: ago(usedAt) }),
  ].filter(Boolean);
}
