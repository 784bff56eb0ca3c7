//! Two engines with the weights of the benchmark: one answers exactly, the other one has read texts and moves
//! them. What an answer has computed is forgotten before the next one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions, default_threads};
use hob_runtime::{Engine, EngineOptions, Model, Reuse, TokenCounts, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::{ConversationId, Token};
use tempfile::TempDir;

use super::Options;
use crate::Subject;
use crate::measure::cpu_time;
use crate::turns::{ask, request, settle, start, ttft, wait_for};

pub struct Pair {
    pub subject: Subject,
    pub threads: usize,
    model: Arc<dyn Model>,
    exact: Engine,
    moving: Engine,
    _directories: [TempDir; 2],
}

/// What a prompt cost until its first token.
pub struct FirstToken {
    pub took: Duration,
    /// Processor time of all threads.
    pub processor: Duration,
    /// Tokens of the prompt, by origin.
    pub tokens: TokenCounts,
}

impl Pair {
    /// `cells` of each engine, about.
    pub fn new(options: &Options, subject: Subject, cells: usize) -> Result<Self> {
        let threads = match options.threads {
            Some(threads) => threads,
            None => default_threads(std::fs::metadata(&subject.path)?.len()),
        };
        let model: Arc<dyn Model> = Arc::new(LlamaModel::load(
            &subject.path,
            LlamaOptions { threads, ..LlamaOptions::default() },
        )?);
        let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
        let context_tokens = cells.max(2048).next_multiple_of(1024);
        let engine = |at: usize| {
            let options = EngineOptions { context_tokens, slots: 2, ..EngineOptions::default() };
            start(model.clone(), directories[at].path(), options)
        };
        let (exact, moving) = (engine(0)?, engine(1)?);
        Ok(Self { subject, threads, model, exact, moving, _directories: directories })
    }

    /// Names the weights, and where they are computed.
    pub fn title(&self) -> String {
        self.subject.on(&*self.model)
    }

    pub fn vocabulary(&self) -> usize {
        self.model.vocabulary().len()
    }

    /// The moving engine reads this.
    pub fn read(&self, conversation: &str, prompt: &[Token]) -> Result<()> {
        ask(&self.moving, request(conversation, prompt, 1))?;
        settle(&self.moving);
        Ok(())
    }

    pub fn exact(&self, conversation: &str, prompt: &[Token]) -> Result<FirstToken> {
        measure(&self.exact, request(conversation, prompt, 1))
    }

    /// In a conversation of its own, which is forgotten.
    pub fn moved(&self, name: &str, prompt: &[Token], repair: Repair) -> Result<FirstToken> {
        let name = name.replace(|c: char| !c.is_alphanumeric(), "-");
        let first = self.moved_in(&name, prompt, repair)?;
        self.forget(&name)?;
        Ok(first)
    }

    /// In a conversation that may exist.
    pub fn moved_in(
        &self,
        conversation: &str,
        prompt: &[Token],
        repair: Repair,
    ) -> Result<FirstToken> {
        let turn = request(conversation, prompt, 1);
        let turn = TurnRequest { reuse: Reuse::Repaired(repair), ..turn };
        let first = measure(&self.moving, turn)?;
        settle(&self.moving);
        Ok(first)
    }

    /// By both engines.
    pub fn forget(&self, conversation: &str) -> Result<()> {
        for engine in [&self.exact, &self.moving] {
            let name = ConversationId::new(conversation).expect("a short name");
            wait_for(engine.forget(name))?;
        }
        Ok(())
    }

    pub fn print_head() {
        println!(
            "| case | strategy | moved | repaired | computed | processor s | ms | x sooner than exact | bar |"
        );
        println!("|---|---|---:|---:|---:|---:|---:|---:|---:|");
    }

    pub fn shutdown(self) {
        self.exact.shutdown();
        self.moving.shutdown();
    }
}

fn measure(engine: &Engine, turn: TurnRequest) -> Result<FirstToken> {
    let before = cpu_time("self")?;
    let (report, _) = ask(engine, turn)?;
    let processor = cpu_time("self")? - before;
    Ok(FirstToken { took: ttft(&report), processor, tokens: report.tokens })
}
