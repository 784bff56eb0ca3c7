// The message field. Focusing it prewarms the chat; finished words are computed while the user types.

import {
  html,
  importModule,
  isComposing,
  isOnTouchScreen,
  isSending,
  lazy,
  t,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useStore,
  withTexts,
} from "/lib.js";
import { Button, Icon, useFitToText } from "/parts.js";
import { Attach, AttachedDocuments, takePaste } from "./attached.js";
import { chatOf, chats, prewarm } from "./chats.js";
import { scrollsChat } from "./paging.js";
import { PushToTalk } from "./push-to-talk.js";
import { kvFields } from "./request.js";
import { SamplingChoice } from "./sampling-choice.js";

const templateList = lazy(() => withTexts(importModule("/chat/template-list.js")));
const TEMPLATE = /^\/[^/\n]*$/;

export function Composer({ conversation }) {
  const field = useRef();
  const { draft, waits, spoken, live } = useStore(conversation.store);
  const { attachments } = conversation;
  useStore(attachments.store, ({ items }) => items);
  const isSpeaking = spoken !== null;
  // A layout effect: the next key must already go into the field. The keyboard of a touch screen would hide the chat.
  useLayoutEffect(() => {
    if (!isOnTouchScreen()) field.current.focus({ preventScroll: true });
  }, []);
  useFitToText(field, [draft, spoken]);
  const isKnown = useStore(chats, () => Boolean(chatOf(conversation.id)));
  const prewarmChat = () => {
    if (isKnown) prewarm(conversation.id, kvFields(conversation.store.get()));
  };
  useEffect(() => {
    // Of an earlier visit.
    conversation.write(conversation.store.get().draft);
    return () => conversation.leave();
  }, [conversation]);
  // When the page opens with a chat, the field has the focus before the list is loaded.
  useEffect(() => {
    if (document.activeElement === field.current || isOnTouchScreen()) prewarmChat();
  }, [isKnown]);
  const templateKeys = useRef(null);
  const [areTemplatesClosed, setTemplatesClosed] = useState(false);
  const isTemplate = TEMPLATE.test(draft) && !isSpeaking;
  useEffect(() => {
    if (!isTemplate) setTemplatesClosed(false);
  }, [isTemplate]);
  const list = templateList.use(isTemplate);
  const showsTemplates = isTemplate && !areTemplatesClosed && Boolean(list);
  const { canSend, sendDraft, inTheWay, wait } = conversation;
  const waitsFor = waits && inTheWay();
  const handleKey = (event) => {
    if (isComposing(event)) return;
    if (templateKeys.current?.(event) || scrollsChat(event)) {
      event.preventDefault();
      return;
    }
    if (!isSending(event)) return;
    event.preventDefault();
    if (inTheWay()) wait();
    else sendDraft();
  };
  const pickTemplate = (text) => {
    conversation.write(text);
    field.current.focus();
    prewarmChat();
  };
  // The button is disabled without words and while an answer stops: it would lose the focus, and the next words.
  const press = (act) => () => {
    act();
    if (!isOnTouchScreen()) field.current.focus({ preventScroll: true });
  };
  const write = (event) => {
    conversation.write(event.target.value);
    prewarmChat();
  };
  const hintOfKeys = isOnTouchScreen() ? null : "composer.hint";
  const hint = isSpeaking ? "talk.recording" : waitsFor ? `composer.after.${waitsFor}` : hintOfKeys;
  const action = live ? "stop" : "send";
  const label = t(live?.isStopping ? "reading.stopping" : `composer.${action}`);
  return html`
    <div class="composer">
      <div class="composer-inner">
        <${AttachedDocuments} attachments=${attachments} focusComposer=${() => field.current.focus()} />
        ${showsTemplates && html`
          <${list.TemplateList}
            words=${draft.slice(1)}
            keys=${templateKeys}
            onPick=${pickTemplate}
            onClose=${() => setTemplatesClosed(true)}
          />`}
        <div class="composer-box">
          <${Attach} attachments=${attachments} />
          <textarea
            ref=${field}
            rows="1"
            dir="auto"
            value=${spoken ?? draft}
            readonly=${isSpeaking}
            placeholder=${t(isSpeaking ? "talk.listening" : "composer.placeholder")}
            aria-label=${t("composer.label")}
            data-test="composer"
            onInput=${write}
            aria-autocomplete="list"
            aria-controls=${showsTemplates ? "templates" : null}
            onKeyDown=${handleKey}
            onFocus=${prewarmChat}
            onPaste=${(event) => takePaste(event, attachments)}
          ></textarea>
          <${PushToTalk}
            conversation=${conversation}
            focusComposer=${() => field.current.focus()}
          />
          <${Button}
            kind="primary"
            aria-label=${label}
            title=${label}
            data-test=${action}
            disabled=${live ? live.isStopping : !canSend()}
            onClick=${press(live ? conversation.stop : sendDraft)}
          >
            <${Icon} name=${action} />
          <//>
        </div>
        <div class="row composer-foot">
          <${SamplingChoice} conversation=${conversation} />
          <span class="grow"></span>
          <span role="status" data-test="composer-hint">
            ${hint && t(hint)}
          </span>
        </div>
      </div>
    </div>`;
}
