use crate::call::initial;
use kimi_sys as sys;

/// A `draft_budget` that is chosen from measured times and acceptance.
pub const AUTO: u32 = sys::KIMI_AUTO;

/// Of a session; see `kimi_session_options`.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub seed: u64,
    /// Tokens per reply; 0: up to the context limit.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f32,
    pub top_p: f32,
    pub min_p: f32,
    /// 0 is off.
    pub top_k: u32,
    /// Drafted tokens per step, 0 to 63, or [`AUTO`].
    pub draft_budget: u32,
    /// Draft a chain instead of a tree.
    pub draft_chain: bool,
    /// Stop tokens do not end the reply.
    pub ignore_stop: bool,
    /// Of a reply, from its append on; 0: none.
    pub deadline_ms: u32,
    /// Of how many of the likeliest tokens steps tell the log probability; 0 is off.
    pub logprobs: u32,
}

impl Default for Options {
    fn default() -> Options {
        let raw = initial(sys::kimi_session_options_init_sized);
        Options {
            seed: raw.seed,
            max_tokens: raw.max_tokens,
            temperature: raw.temperature,
            top_p: raw.top_p,
            min_p: raw.min_p,
            top_k: raw.top_k,
            draft_budget: raw.draft_budget,
            draft_chain: raw.draft_mode == sys::KIMI_DRAFT_CHAIN,
            ignore_stop: raw.flags & sys::KIMI_IGNORE_STOP != 0,
            deadline_ms: raw.deadline_ms,
            logprobs: raw.logprobs,
        }
    }
}

impl Options {
    pub(crate) fn raw(&self) -> sys::kimi_session_options {
        sys::kimi_session_options {
            seed: self.seed,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            min_p: self.min_p,
            top_k: self.top_k,
            draft_budget: self.draft_budget,
            draft_mode: if self.draft_chain { sys::KIMI_DRAFT_CHAIN } else { sys::KIMI_DRAFT_TREE },
            flags: if self.ignore_stop { sys::KIMI_IGNORE_STOP } else { 0 },
            deadline_ms: self.deadline_ms,
            logprobs: self.logprobs,
            ..initial(sys::kimi_session_options_init_sized)
        }
    }
}
