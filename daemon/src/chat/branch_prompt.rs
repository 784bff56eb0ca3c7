//! Prompts of a stored branch, each through a window that leaves out some of its messages.

use hob_slots::Token;

use super::request::ResolvedRequest;
use crate::conversations::transcript::{Branch, Window};
use crate::error::ApiError;
use crate::prompt::{DocumentTexts, Extent, Rendered, Renderer};

/// What each of the prompts is rendered from.
pub struct BranchPrompt<'a> {
    pub renderer: &'a Renderer,
    pub request: &'a ResolvedRequest,
    pub branch: &'a Branch,
    /// The texts of the documents that the messages name.
    pub documents: &'a DocumentTexts,
    /// Timelines whose tokens the prompt keeps where its text is theirs.
    pub known: &'a [Vec<Token>],
}

impl BranchPrompt<'_> {
    /// The prompt with the messages of `window`.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn render(&self, window: &Window) -> Result<Rendered, ApiError> {
        let messages = self.branch.prompt(window);
        let parts = self.request.prompt_parts(&messages, self.documents);
        self.renderer.prompt(&parts, &Extent::Whole, self.known)
    }
}
