use crate::{Result, Session};
use kimi_sys as sys;
use std::slice;

pub use kimi_sys::kimi_logprob as Logprob;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Prefill,
    Decode,
    Finished,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    Stop,
    Length,
    Cancelled,
    Deadline,
    Error,
    ToolCalls,
    StopString,
    Constraint,
    /// Of a newer library.
    Other(u32),
}

/// What one step did; see `kimi_step`.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub phase: Phase,
    /// Set together with the reply's last tokens.
    pub finish: Option<Finish>,
    /// Tokens committed by this step, including the stop token.
    pub tokens: Vec<i32>,
    /// The text that became complete, without the stop token.
    pub text: String,
    /// Prompt tokens processed so far, of `prompt_total`.
    pub prompt_done: u64,
    pub prompt_total: u64,
    /// Tokens drafted and verified in this step.
    pub draft_nodes: u32,
    /// Of these, committed.
    pub draft_accepted: u32,
    /// Of each token, its own and those of the likeliest tokens, if the options want them.
    pub logprobs: Vec<Logprob>,
    /// Of `prompt_total`: were processed before.
    pub prompt_reused: u64,
}

pub(crate) fn finish(code: u32) -> Option<Finish> {
    Some(match code {
        sys::KIMI_FINISH_NONE => return None,
        sys::KIMI_FINISH_STOP => Finish::Stop,
        sys::KIMI_FINISH_LENGTH => Finish::Length,
        sys::KIMI_FINISH_CANCELLED => Finish::Cancelled,
        sys::KIMI_FINISH_DEADLINE => Finish::Deadline,
        sys::KIMI_FINISH_ERROR => Finish::Error,
        sys::KIMI_FINISH_TOOL_CALLS => Finish::ToolCalls,
        sys::KIMI_FINISH_STOP_STRING => Finish::StopString,
        sys::KIMI_FINISH_CONSTRAINT => Finish::Constraint,
        other => Finish::Other(other),
    })
}

/// The elements that C names by pointer and number, where NULL is none.
pub(crate) unsafe fn elements<T: Clone>(data: *const T, n: usize) -> Vec<T> {
    if n == 0 {
        Vec::new()
    } else {
        slice::from_raw_parts(data, n).to_vec()
    }
}

impl Step {
    /// Copies a step.
    ///
    /// # Safety
    /// The session's next call has not come yet.
    pub(crate) unsafe fn new(raw: &sys::kimi_step) -> Step {
        let text = elements(raw.text as *const u8, raw.text_len);
        Step {
            phase: match raw.phase {
                sys::KIMI_PHASE_PREFILL => Phase::Prefill,
                sys::KIMI_PHASE_DECODE => Phase::Decode,
                _ => Phase::Finished,
            },
            finish: finish(raw.finish_reason),
            tokens: elements(raw.tokens, raw.n_tokens),
            text: String::from_utf8_lossy(&text).into_owned(),
            prompt_done: raw.prompt_done,
            prompt_total: raw.prompt_total,
            draft_nodes: raw.draft_nodes,
            draft_accepted: raw.draft_accepted,
            logprobs: elements(raw.logprobs, raw.n_logprobs),
            prompt_reused: raw.prompt_reused,
        }
    }
}

/// The steps up to the end of the reply, or to an error.
pub struct Steps<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) ended: bool,
}

impl Iterator for Steps<'_> {
    type Item = Result<Step>;

    fn next(&mut self) -> Option<Result<Step>> {
        if self.ended {
            return None;
        }
        let step = self.session.step();
        self.ended = step.as_ref().map_or(true, |step| step.phase == Phase::Finished);
        Some(step)
    }
}
