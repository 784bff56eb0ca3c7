//! llama-server with `--cache-reuse` over the same weights, asked for the same tokens.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use hob_slots::Token;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Subject;
use crate::peer::server::{LlamaServer, PROGRAM};
use crate::peer::setup::Setup;

/// Tokens of the shortest text that it moves, as its users set it; less where documents are shorter.
const REUSED: usize = 256;

pub struct Server {
    server: LlamaServer,
    _directory: TempDir,
}

pub struct Answer {
    /// From the connection to the last byte of one token.
    pub took: Duration,
    /// Tokens of the prompt.
    pub prompt: usize,
    pub computed: usize,
}

impl Server {
    /// `None`, and a sentence, where it is not built. `document`: tokens of the texts that move.
    pub fn start(
        subject: &Subject,
        threads: usize,
        context: usize,
        document: usize,
    ) -> Result<Option<Self>> {
        if !Path::new(PROGRAM).is_file() {
            println!("No row of llama-server: `cargo xtask peer` builds it.\n");
            return Ok(None);
        }
        let directory = tempfile::tempdir()?;
        let setup = Setup {
            model: subject.path.clone(),
            context: context.max(2048),
            threads,
            slots: Some(1),
            unload_after: None,
            saves: false,
            cache_reuse: Some(REUSED.min(document / 2)),
            drafts: true,
        };
        let server = LlamaServer::start(directory.path(), &setup)?;
        Ok(Some(Self { server, _directory: directory }))
    }

    /// One token behind `prompt`, in its only slot.
    pub fn ask(&self, prompt: &[Token]) -> Result<Answer> {
        let tokens: Vec<i32> = prompt.iter().map(|token| token.0).collect();
        let body =
            json!({"prompt": tokens, "n_predict": 1, "cache_prompt": true, "temperature": 0});
        let answer = self.server.post("/completion", &body)?;
        let said: Value =
            serde_json::from_str(&answer.body).with_context(|| answer.body.clone())?;
        let computed =
            said["timings"]["prompt_n"].as_u64().with_context(|| format!("in {said}"))?;
        let computed = usize::try_from(computed).context("prompt_n")?;
        Ok(Answer { took: answer.took, prompt: prompt.len(), computed })
    }
}
