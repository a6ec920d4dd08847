//! What replies must and must not be.
use crate::call::{c_string, call};
use crate::{Result, Session};
use kimi_sys as sys;
use std::ffi::CString;
use std::os::raw::c_char;

pub use kimi_sys::kimi_logit_bias as LogitBias;

/// Of the replies' text; see `kimi_session_set_constraint`.
#[derive(Clone, Copy, Debug)]
pub enum Constraint<'a> {
    None,
    /// The reply is one JSON value that satisfies this schema.
    JsonSchema(&'a str),
    /// The whole reply matches this expression.
    Regex(&'a str),
    /// Calls name one of these tools, an array as in a chat request, and fit its parameters.
    Tools(&'a str),
}

// SAFETY, of all methods: the session lives, and what pointers name outlives the call.
impl Session {
    /// Constrains the replies from the next one on.
    pub fn set_constraint(&mut self, constraint: Constraint<'_>) -> Result<()> {
        let (kind, text) = match constraint {
            Constraint::None => (sys::KIMI_CONSTRAINT_NONE, ""),
            Constraint::JsonSchema(text) => (sys::KIMI_CONSTRAINT_JSON_SCHEMA, text),
            Constraint::Regex(text) => (sys::KIMI_CONSTRAINT_REGEX, text),
            Constraint::Tools(text) => (sys::KIMI_CONSTRAINT_TOOLS, text),
        };
        let data = text.as_ptr() as *const c_char;
        call(|error| unsafe {
            sys::kimi_session_set_constraint(self.raw(), kind, data, text.len(), error)
        })
    }

    /// Sets what is added to logits, from the next reply on.
    pub fn set_logit_bias(&mut self, biases: &[LogitBias]) -> Result<()> {
        call(|error| unsafe {
            sys::kimi_session_set_logit_bias(self.raw(), biases.as_ptr(), biases.len(), error)
        })
    }

    /// Sets the strings that end replies, from the next one on.
    pub fn set_stop_strings(&mut self, strings: &[&str]) -> Result<()> {
        let strings: Vec<CString> =
            strings.iter().map(|string| c_string(string.as_bytes())).collect::<Result<_>>()?;
        let pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
        call(|error| unsafe {
            sys::kimi_session_set_stop_strings(self.raw(), pointers.as_ptr(), pointers.len(), error)
        })
    }
}
