//! Opens the answers of requests whose turns are queued: their text goes to the transcript, their prompt to those
//! that learn from it.

use hob_prewarm::{Event, PrefixName};
use hob_slots::Layer;
use hob_slots::format::SegmentRef;

use super::account::Extract;
use super::answer::{self, Answer, NewAnswer};
use super::assembly::Assembly;
use super::identity::Identity;
use super::locks::ConversationGuard;
use super::privacy::Scope;
use super::recording::Recording;
use super::request::ResolvedRequest;
use super::submit::Submitted;
use super::{Chat, forward, names};
use crate::conversations::transcript::{Continuation, OpenAnswer, Transcript, TurnStart};
use crate::explain::Subject;
use crate::prompt::DocumentTexts;
use crate::wire::answer::Head;
use crate::wire::chat::ChatRequest;
use crate::wire::message::Message;

/// A chat whose turns are queued.
pub(super) struct Queued<'a> {
    pub resolved: &'a ResolvedRequest,
    pub scope: &'a Scope,
    pub transcript: Transcript,
    pub start: TurnStart,
    pub submitted: Submitted,
    pub guard: Option<ConversationGuard>,
}

impl Chat {
    /// Opens the answer of queued turns, and queues the request's text for the transcript.
    pub(super) fn open(&self, queued: Queued<'_>) -> Answer {
        let Queued { resolved, scope, transcript, start, submitted, guard } = queued;
        let request = &resolved.request;
        let (count, is_prewarm) = (request.shape.choices, request.shape.is_prewarm());
        let TurnStart { mut continuation, documents, .. } = start;
        if let Some(continuation) = &mut continuation
            && let Some(window) = submitted.next_window.clone()
        {
            continuation.go_on_with(window);
        }
        let left_out = continuation.as_ref().map_or(0, |continuation| continuation.left_out);
        let extract = Extract { left_out, ..submitted.extract };
        let continued = continuation.as_ref().and_then(|it| it.continued.as_ref());
        let continued = continued.map(|continued| continued.message.clone());
        let Submitted { source, subject, reading, begun, reuse_watch, exact_because, .. } =
            submitted;
        let prompt = subject.prompt.clone();
        let mut recording = Recording::new(
            &self.shared.options,
            transcript.clone(),
            prompt.clone(),
            scope.is_private,
        );
        if !is_prewarm {
            let text = self.write_question(request, scope, &transcript, continuation);
            recording.keep(scope.recorded(), text);
            self.observe(resolved, scope, &subject, &documents);
        }
        let is_local = source.upstream().is_none();
        let assembly = || match request.messages.last() {
            _ if !is_local => forward::assembly(continued.as_ref()),
            // The client has the text so far.
            Some(_) if request.continues_final => {
                let so_far = Assembly::begun(&reading, begun.thinks, &begun.text);
                Assembly::new(&reading, so_far.is_reasoning())
            }
            _ => {
                let mut assembly = Assembly::begun(&reading, begun.thinks, &begun.text);
                assembly.keep_reasoning(continued.as_ref().map_or("", Message::reasoning));
                assembly
            }
        };
        let new = NewAnswer {
            source,
            assemblies: (0..count).map(|_| assembly()).collect(),
            continued: continued.as_ref().map(Message::to_json),
            choices_per_prompt: count,
            prompts: if request.verbose { vec![prompt] } else { Vec::new() },
            subject,
            extract,
            max_tokens: request.shape.max_tokens,
            stop_tokens: request.shape.stop_tokens.clone(),
            reports_progress: request.progress && request.shape.stream && is_local,
            guard: guard.filter(|_| !is_prewarm),
            reuse_watch,
            exact_because,
        };
        self.begin_answer("chatcmpl", &scope.identity, recording, new)
    }

    /// Queues the request's messages for the transcript, and an empty answer behind them; `None`
    /// without a conversation.
    fn write_question(
        &self,
        request: &ChatRequest,
        scope: &Scope,
        transcript: &Transcript,
        continuation: Option<Continuation>,
    ) -> Option<OpenAnswer> {
        let text = scope.identity.named().map(|id| match continuation {
            Some(continuation) => transcript.append(id, continuation, self.now()),
            None => transcript.sync(id, request.messages.clone(), self.now()),
        });
        scope.has_text();
        text
    }

    /// Counts a use of the profile's prefix, and lets the daemon learn from the prompt.
    fn observe(
        &self,
        resolved: &ResolvedRequest,
        scope: &Scope,
        subject: &Subject,
        documents: &DocumentTexts,
    ) {
        let options = &self.shared.options;
        let prompt = &subject.prompt;
        if let Some(profile) = resolved.profile.clone() {
            options.events.send(Event::Used { prefix: PrefixName::Profile(profile) });
        }
        // A document has saved KV of its own. A prefix is computed without adapters.
        let may_learn =
            !prompt.is_empty() && documents.is_empty() && resolved.request.shape.lora.is_empty();
        if !scope.stays_in_memory() && may_learn {
            let prefix = resolved.preamble.as_ref().map(|preamble| &preamble.prefix);
            let covered = prefix.and_then(|prefix| prefix.tokens()).unwrap_or(0);
            let is_said = |segment: &&SegmentRef| {
                matches!(segment.layer, Layer::User | Layer::Assistant | Layer::Tool)
            };
            // Where no message is found in the prompt, the next one goes on behind all of it but its last token.
            let last = subject.segments.iter().rfind(is_said).map(|segment| segment.end as usize);
            let end = last.unwrap_or(prompt.len() - 1);
            options.learned.observe(scope.identity.named().cloned(), prompt, end, covered);
        }
    }

    /// `prefix`: of the answer's id.
    pub(super) fn begin_answer(
        &self,
        prefix: &str,
        identity: &Identity,
        recording: Recording,
        new: NewAnswer,
    ) -> Answer {
        let options = &self.shared.options;
        let head = Head {
            id: names::answer(prefix),
            created: self.now().0 / 1000,
            model: match new.source.upstream() {
                Some(forwarded) => forwarded.model.clone(),
                None => options.model_name.clone(),
            },
            fingerprint: format!("fp_{}", options.engine.fingerprint()),
        };
        let conversation = identity.pinned().cloned();
        let active_turn = options.events.turn(conversation.clone());
        Answer::new(
            answer::Context {
                engine: options.engine.clone(),
                model: options.engine.model().clone(),
                metrics: options.metrics.clone(),
                speed: self.shared.speed.clone(),
                head,
                conversation,
                recording,
                _active_turn: active_turn,
            },
            new,
        )
    }
}
