//! Answers that go on without the client that asked for them.
//!
//! - Any number of readers read a detached answer from its beginning, while it runs. A reader that
//!   leaves changes nothing.
//! - It ends by itself or when a client stops it. Afterwards the stored text is all there is.
//! - A reader that is behind skips the reports of progress that are out of date.

use std::sync::Arc;

use hob_slots::ConversationId;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The detached answers that run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DetachedAnswers {
    running: Arc<Mutex<Vec<Arc<Running>>>>,
}

#[derive(Debug)]
struct Running {
    conversation: ConversationId,
    events: Mutex<Vec<Event>>,
    /// The number of events, and whether there will be no more.
    state: watch::Sender<State>,
    stop: watch::Sender<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    events: usize,
    is_over: bool,
}

#[derive(Clone, Debug)]
struct Event {
    json: Arc<str>,
    /// A later event makes it out of date.
    is_report: bool,
}

/// Writes one answer. Dropping it ends the answer for its readers.
#[derive(Debug)]
pub struct Writer {
    answers: DetachedAnswers,
    running: Arc<Running>,
}

/// Reads one answer from its beginning.
#[derive(Debug)]
pub struct Reader {
    running: Arc<Running>,
    state: watch::Receiver<State>,
    next: usize,
}

impl DetachedAnswers {
    /// Begins an answer that clients may read and stop from here on.
    pub fn begin(&self, conversation: ConversationId) -> Writer {
        let running = Arc::new(Running {
            conversation,
            events: Mutex::default(),
            state: watch::Sender::default(),
            stop: watch::Sender::default(),
        });
        self.running.lock().push(running.clone());
        Writer { answers: self.clone(), running }
    }

    /// The conversation's oldest answer that runs: a newer one waits for it.
    pub fn read(&self, conversation: &ConversationId) -> Option<Reader> {
        let running = self.running.lock();
        let found = running.iter().find(|running| running.conversation == *conversation);
        found.cloned().map(Reader::of)
    }

    /// Stops the conversation's answers; `false` when none runs.
    pub fn stop(&self, conversation: &ConversationId) -> bool {
        let running = self.running.lock();
        let its_own = running.iter().filter(|running| running.conversation == *conversation);
        its_own.inspect(|running| _ = running.stop.send_replace(true)).count() > 0
    }

    /// Waits until those that run now have ended.
    pub async fn all_end(&self) {
        let states: Vec<_> =
            self.running.lock().iter().map(|running| running.state.subscribe()).collect();
        for mut state in states {
            let _ = state.wait_for(|state| state.is_over).await; // An error: it is gone.
        }
    }

    /// The conversations that are being answered.
    pub fn conversations(&self) -> Vec<ConversationId> {
        self.running.lock().iter().map(|running| running.conversation.clone()).collect()
    }
}

impl Writer {
    pub fn reader(&self) -> Reader {
        Reader::of(self.running.clone())
    }

    pub fn push(&self, json: String) {
        self.add(Event { json: json.into(), is_report: false });
    }

    /// Adds a report of progress, which a later event makes out of date.
    pub fn push_report(&self, json: String) {
        self.add(Event { json: json.into(), is_report: true });
    }

    fn add(&self, event: Event) {
        let mut events = self.running.events.lock();
        events.push(event);
        self.running.state.send_modify(|state| state.events = events.len());
    }

    /// Ready when a client stops the answer.
    pub async fn stopped(&self) {
        let mut stop = self.running.stop.subscribe();
        // An error is impossible: this writer holds the sender.
        let _ = stop.wait_for(|&is_stopped| is_stopped).await;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let own = &self.running;
        self.answers.running.lock().retain(|running| !Arc::ptr_eq(running, own));
        own.state.send_modify(|state| state.is_over = true);
    }
}

impl Reader {
    fn of(running: Arc<Running>) -> Self {
        let state = running.state.subscribe();
        Self { running, state, next: 0 }
    }

    /// The next event as JSON; `None` at the end. It may be cancelled.
    pub async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            let next = self.next;
            // An error is impossible: `running` holds the sender.
            let state = self.state.wait_for(|state| state.events > next || state.is_over).await;
            state.ok().filter(|state| state.events > next)?;
            let events = self.running.events.lock();
            let event = events[next].clone();
            let is_last = next + 1 == events.len();
            drop(events);
            self.next += 1;
            if !event.is_report || is_last {
                return Some(event.json);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ConversationId {
        ConversationId::new(text).unwrap()
    }

    async fn all(mut reader: Reader) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(json) = reader.next().await {
            texts.push(json.to_string());
        }
        texts
    }

    #[tokio::test]
    async fn a_late_reader_reads_from_the_beginning_without_outdated_reports() {
        let answers = DetachedAnswers::default();
        let writer = answers.begin(id("a"));
        let mut early = writer.reader();
        writer.push_report("10 %".to_owned());
        assert_eq!(early.next().await.as_deref(), Some("10 %"));
        writer.push_report("20 %".to_owned());
        writer.push("so".to_owned());
        writer.push("on".to_owned());
        let late = answers.read(&id("a")).unwrap();
        assert!(answers.read(&id("b")).is_none());
        let texts = tokio::spawn(all(late));
        drop(writer);
        assert_eq!(texts.await.unwrap(), ["so", "on"]);
        assert_eq!(all(early).await, ["so", "on"]);
        assert!(answers.read(&id("a")).is_none() && answers.conversations().is_empty());
    }

    #[tokio::test]
    async fn the_end_of_all_is_that_of_those_that_run() {
        let answers = DetachedAnswers::default();
        answers.all_end().await;
        let (one, other) = (answers.begin(id("a")), answers.begin(id("b")));
        let mut all_end = Box::pin(answers.all_end());
        let soon = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, &mut all_end).await.is_err());
        drop(one);
        assert!(tokio::time::timeout(soon, &mut all_end).await.is_err(), "the other one runs");
        drop(other);
        all_end.await;
    }

    #[tokio::test]
    async fn a_stop_reaches_the_answers_of_its_conversation_alone() {
        let answers = DetachedAnswers::default();
        let (one, other) = (answers.begin(id("a")), answers.begin(id("b")));
        assert!(answers.stop(&id("a")) && !answers.stop(&id("c")));
        one.stopped().await;
        let soon = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, other.stopped()).await.is_err());
    }
}
