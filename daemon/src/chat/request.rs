//! What a chat request asks for: the checked body, with the profile that it names.

use std::num::NonZeroUsize;
use std::sync::Arc;

use hob_prewarm::ProfileName;
use hob_prewarm::profile::ReuseLimits;
use hob_runtime::turn::{Purpose, Reuse};
use hob_slots::content::{Accepted, Repair};
use hob_slots::reanchor::Beyond;
use serde_json::Value;

use crate::error::ApiError;
use crate::profiles::Profiles;
use crate::prompt::{DocumentTexts, Extent, Preamble, PromptParts};
use crate::wire::chat::ChatRequest;
use crate::wire::hob::{ProfileChoice, profile_choice};
use crate::wire::message::{Message, Role};
use crate::wire::sampling::{SamplingFields, Shape};

/// Which KV an answer may use that accepts this.
pub fn reuse_of(accepted: Option<Accepted>) -> Reuse {
    match accepted {
        Some(Accepted::Repaired) => Reuse::Repaired(Repair::default()),
        Some(Accepted::Exact) | None => Reuse::Exact,
    }
}

#[derive(Clone, Debug)]
pub struct ResolvedRequest {
    pub request: ChatRequest,
    pub profile: Option<ProfileName>,
    /// The profile's part of the prompt.
    pub preamble: Option<Arc<Preamble>>,
}

impl ResolvedRequest {
    /// Checks a body and looks up its profile: where it names none, the default one, if there is
    /// one. `vocabulary`: the number of tokens of the model.
    ///
    /// # Errors
    /// Names the invalid field.
    pub fn parse(body: &Value, profiles: &Profiles, vocabulary: usize) -> Result<Self, ApiError> {
        let choice = profile_choice(body)?;
        let is_default = choice == ProfileChoice::Default;
        let profile = match choice {
            ProfileChoice::Named(name) => Some(name),
            ProfileChoice::Default => profiles.default(),
            ProfileChoice::None => None,
        };
        let preamble = profile.as_ref().map(|name| profiles.preamble(name)).transpose();
        let preamble =
            preamble.map_err(|error| if is_default { unusable_default(error) } else { error })?;
        let tools = preamble.as_deref().map_or(&[][..], Preamble::tools);
        let request = ChatRequest::parse_with(body, vocabulary, tools)?;
        Ok(Self { request, profile, preamble })
    }

    /// Sets the sampling parameters that the request leaves open: by its conversation, its profile,
    /// its client's defaults, the model's file. `conversation`: as they were set.
    pub fn fill(&mut self, conversation: Option<&Value>, model: &SamplingFields) {
        // The conversation's sampling was checked when it was set; another version may have known other fields.
        let conversation = conversation.map(|set| SamplingFields::parse_all(set, "sampling"));
        let conversation = conversation.and_then(Result::ok).unwrap_or_default();
        let none = SamplingFields::default();
        let profile = self.preamble.as_deref().map_or(&none, Preamble::sampling);
        self.request.shape.fill(&[&conversation, profile, &self.request.defaults, model]);
    }

    /// Cells that the conversation may have: the request's, or its profile's.
    pub fn budget(&self) -> Option<usize> {
        let of_profile = || self.preamble.as_ref().and_then(|preamble| preamble.profile.budget);
        self.request.budget.or_else(of_profile).map(NonZeroUsize::get)
    }

    /// Which KV the answer may use: as the request says, or its profile.
    pub fn reuse(&self) -> Reuse {
        reuse_of(self.accepted())
    }

    /// Whether the request or its profile says that the answer may use exact KV alone.
    pub fn lossless(&self) -> bool {
        self.accepted() == Some(Accepted::Exact)
    }

    fn accepted(&self) -> Option<Accepted> {
        let of_profile = || self.preamble.as_ref().and_then(|preamble| preamble.profile.reuse);
        self.request.reuse.or_else(of_profile)
    }

    /// Beyond them, answers of its profile use exact KV alone.
    pub fn reuse_limits(&self) -> ReuseLimits {
        let preamble = self.preamble.as_ref();
        preamble.map_or_else(ReuseLimits::default, |preamble| preamble.profile.reuse_limits)
    }

    /// Whether a conversation that outgrows the context goes on: as the request says, or its profile.
    pub fn reanchors(&self) -> bool {
        let of_profile = || self.preamble.as_ref().and_then(|preamble| preamble.profile.beyond);
        self.request.beyond.or_else(of_profile) == Some(Beyond::Reanchor)
    }

    /// Whether tokens of the answer may be guessed: as the request says, or its profile.
    pub fn drafts(&self) -> bool {
        let of_profile = || self.preamble.as_ref().and_then(|preamble| preamble.profile.draft);
        self.request.draft.or_else(of_profile).unwrap_or(true)
    }

    /// How much of the prompt is known. A request that generates nothing may lack its question.
    pub fn extent(&self) -> Extent {
        let last = self.request.messages.last().map(|message| message.role);
        if !self.request.shape.is_prewarm() || matches!(last, Some(Role::User | Role::Tool)) {
            Extent::Whole
        } else {
            Extent::Before(String::new())
        }
    }

    /// `documents`: those that the messages name.
    pub fn prompt_parts<'a>(
        &'a self,
        messages: &'a [Message],
        documents: &'a DocumentTexts,
    ) -> PromptParts<'a> {
        PromptParts {
            preamble: self.preamble.as_deref(),
            messages,
            tools: &self.request.tools,
            variables: &self.request.template_variables,
            documents,
        }
    }
}

/// The request does not name the profile that refuses it. Without the profile's rules it would be
/// answered otherwise than the user has arranged.
fn unusable_default(error: ApiError) -> ApiError {
    let remedy = "it applies to requests that name no profile: mend its file, or send \
                  `\"hob\": {\"profile\": \"none\"}`";
    ApiError { message: format!("{}; {remedy}", error.message), ..error }
}

/// The engine's priority class for a request.
pub fn purpose(shape: &Shape) -> Purpose {
    if shape.is_prewarm() { Purpose::Speculate } else { Purpose::Answer }
}
