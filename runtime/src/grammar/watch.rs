//! An answer that is free until a mark opens a call: then the call has the name of a tool and follows the
//! tool's schema, and behind it the answer is free again.
//!
//! - Where a form has no mark before names, the call is free until its arguments begin.
//! - While no call is open, a token costs what its parser costs, and there is no mask.
//! - Where an answer has one call at most, the grammar of that call goes on to the end of the answer.
//! - A call that the grammar cannot follow from its beginning on is free: the model knows best. So is what follows a
//!   call in tags that ended before its grammar did.

use hob_dialect::{Parser, Part};
use hob_slots::Token;
use llguidance::Matcher;
use toktrie::TokTrie;

pub(super) struct Watch {
    parser: Parser,
    /// Bytes of the answer that are a part of a character.
    partial: Vec<u8>,
    /// At the beginning of a call.
    compiled: Matcher,
    /// The grammar of the call that is open.
    open: Option<Matcher>,
    /// The text ends in a call whose grammar is begun, or cannot be followed.
    is_opened: bool,
    /// An answer has one call at most.
    ends_behind_call: bool,
    /// The one call is over, and its grammar is not there to end the answer.
    is_over: bool,
}

impl Watch {
    pub fn new(parser: Parser, compiled: Matcher, ends_behind_call: bool) -> Self {
        Self {
            parser,
            partial: Vec::new(),
            compiled,
            open: None,
            is_opened: false,
            ends_behind_call,
            is_over: false,
        }
    }

    /// Whether the answer may end here.
    #[cfg(test)]
    pub fn may_stop(&mut self) -> bool {
        self.open.as_mut().is_none_or(|open| open.is_accepting().unwrap_or(true))
    }

    /// Whether the answer must end here.
    pub fn must_stop(&self) -> bool {
        let is_stopped = self.open.as_ref().is_some_and(Matcher::is_stopped);
        self.ends_behind_call && (is_stopped || self.is_over)
    }

    /// The grammar of the call that is open.
    pub fn open(&mut self) -> Option<&mut Matcher> {
        self.open.as_mut()
    }

    /// The grammar cannot be followed any further. The call is free.
    pub fn give_up(&mut self) {
        self.open = None;
    }

    /// A model that writes no line feed before the mark that ends a text has ended its call within that text, as the
    /// grammar has it.
    fn give_up_unless_accepting(&mut self) {
        if let Some(open) = &mut self.open
            && !open.is_accepting().unwrap_or(true)
        {
            self.give_up();
        }
    }

    /// Reads the next token of the answer.
    pub fn accept(&mut self, token: Token) {
        let id = token.0.cast_unsigned();
        if let Some(open) = &mut self.open {
            let is_broken = open.consume_token(id).is_err();
            let is_complete = open.is_stopped() || open.is_accepting().unwrap_or(true);
            if is_broken || is_complete && !self.ends_behind_call {
                self.open = None;
            }
        }
        let Ok(env) = self.compiled.tok_env() else { return };
        let trie = env.tok_trie();
        if !trie.eos_tokens().contains(&id) {
            let bytes = trie.token(id);
            self.partial
                .extend(bytes.strip_prefix(&[TokTrie::SPECIAL_TOKEN_MARKER]).unwrap_or(bytes));
        }
        let text = self.take_text();
        let parts = self.parser.push(&text);
        let ends_call = parts.iter().any(|part| matches!(part, Part::ToolCallEnd { .. }));
        if ends_call && self.parser.reads_tags() {
            self.give_up_unless_accepting();
        }
        self.is_over |= ends_call && self.open.is_none();
        let was_opened =
            std::mem::replace(&mut self.is_opened, self.parser.opened_call().is_some());
        if self.open.is_none()
            && let Some(begun) = self.begun(&parts, was_opened)
        {
            let mut matcher = self.compiled.deep_clone();
            let tokens = trie.greedy_tokenize(begun.as_bytes());
            let follows = matcher.consume_tokens(&tokens).is_ok() && !matcher.is_stopped();
            self.open = follows.then_some(matcher);
        }
    }

    /// What the grammar of a call that the last text began must follow.
    fn begun(&self, parts: &[Part], was_opened: bool) -> Option<String> {
        if self.parser.marks_names() {
            let opened = self.parser.opened_call().filter(|_| !was_opened);
            return opened.map(str::to_owned);
        }
        let mut begun = None;
        for part in parts {
            match part {
                Part::ToolCallStart { name, .. } => begun = Some(format!("{name}\n")),
                Part::ToolCallArguments { json_fragment, .. } => {
                    if let Some(begun) = &mut begun {
                        begun.push_str(json_fragment);
                    }
                }
                Part::ToolCallEnd { .. } => begun = None,
                Part::Content(_) | Part::Reasoning(_) => {}
            }
        }
        begun
    }

    /// The whole characters of the bytes so far.
    fn take_text(&mut self) -> String {
        let mut text = String::new();
        loop {
            let (valid, error) = match std::str::from_utf8(&self.partial) {
                Ok(whole) => (whole.len(), None),
                Err(error) => (error.valid_up_to(), error.error_len()),
            };
            text.push_str(&String::from_utf8_lossy(&self.partial[..valid]));
            self.partial.drain(..valid + error.unwrap_or(0));
            let Some(_) = error else { return text };
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}
