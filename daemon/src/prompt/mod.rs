//! Messages to tokens: the same way for answers and for what is computed ahead of them.
//!
//! Reading order: [`template`] (the model's chat template), `call_ids` (the ids of calls that one template writes),
//! [`rendering`] (it runs in a child), [`preamble`] (what a profile adds in front), [`documents`] (the texts that
//! messages name), [`layout`] (what stands around one), [`render`] (messages to a prompt), [`strict`] (messages that a
//! template refuses), [`retokenize`] (text to tokens, reusing known ones), [`segments`] (which part each token belongs
//! to), [`passages`] (where a message is in the text), [`extent`] (the tokens that are certain before a message is
//! complete), [`infill`] (a prompt of two texts), [`prefix_cache`] (the rendered prefix of a profile).

mod call_ids;
pub mod documents;
pub mod extent;
pub mod infill;
pub mod layout;
pub mod passages;
pub mod preamble;
pub mod prefix_cache;
pub mod render;
pub mod rendering;
pub mod retokenize;
pub mod segments;
pub mod strict;
pub mod template;

pub use documents::DocumentTexts;
pub use extent::Extent;
pub use layout::Layout;
pub use preamble::Preamble;
pub use render::{PromptParts, Rendered, Renderer};
pub use template::{RendersIn, Template};
