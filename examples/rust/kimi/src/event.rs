use crate::step::{elements, finish};
use crate::{Finish, Result, Session};
use kimi_sys as sys;
use std::os::raw::c_char;

/// A tool call, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The place in the reply, from 0.
    pub index: u32,
    pub id: String,
    /// The function.
    pub name: String,
    pub arguments: String,
}

/// The end of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub finish: Finish,
    /// Before the reply, earlier turns included.
    pub prompt_tokens: u64,
    pub reply_tokens: u64,
    /// Complete tool calls.
    pub calls: u64,
}

/// A part of a reply; see `kimi_session_next_event`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The next piece of the reasoning.
    Reasoning(String),
    /// The next piece of the answer.
    Content(String),
    /// A call begins; it has no arguments yet.
    CallBegin(Call),
    /// The next piece of a call's arguments.
    CallArguments(Call),
    /// A complete call.
    Call(Call),
    Finished(End),
    /// Of a newer library.
    Other(u32),
}

/// Copies a text.
///
/// # Safety
/// The session's next call has not come yet.
unsafe fn text(data: *const c_char, n: usize) -> String {
    String::from_utf8_lossy(&elements(data as *const u8, n)).into_owned()
}

impl Event {
    /// Copies an event; `None` where there is none.
    ///
    /// # Safety
    /// The session's next call has not come yet.
    pub(crate) unsafe fn new(raw: &sys::kimi_event) -> Option<Event> {
        let piece = || text(raw.text, raw.text_len);
        let call = || Call {
            index: raw.call,
            id: text(raw.id, raw.id_len),
            name: text(raw.name, raw.name_len),
            arguments: piece(),
        };
        Some(match raw.kind {
            sys::KIMI_EVENT_NONE => return None,
            sys::KIMI_EVENT_REASONING => Event::Reasoning(piece()),
            sys::KIMI_EVENT_CONTENT => Event::Content(piece()),
            sys::KIMI_EVENT_CALL_BEGIN => Event::CallBegin(call()),
            sys::KIMI_EVENT_CALL_ARGUMENTS => Event::CallArguments(call()),
            sys::KIMI_EVENT_CALL => Event::Call(call()),
            sys::KIMI_EVENT_FINISHED => Event::Finished(End {
                finish: finish(raw.finish_reason).unwrap_or(Finish::Other(raw.finish_reason)),
                prompt_tokens: raw.prompt_tokens,
                reply_tokens: raw.reply_tokens,
                calls: raw.calls,
            }),
            other => Event::Other(other),
        })
    }
}

/// The events up to the end of the reply, `Finished` or an error.
pub struct Events<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) ended: bool,
}

impl Iterator for Events<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        if self.ended {
            return None;
        }
        let event = self.session.next_event().transpose();
        self.ended = !matches!(&event, Some(Ok(event)) if !matches!(event, Event::Finished(_)));
        event
    }
}
