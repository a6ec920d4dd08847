use crate::call::{c_path, call, fill, initial, make};
use crate::{Engine, Error, Event, Events, Options, Result, Step, Steps};
use kimi_sys as sys;
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::os::unix::io::RawFd;
use std::path::Path;
use std::ptr;

pub use kimi_sys::kimi_session_statistics as SessionStatistics;

/// A growing sequence of tokens: prompts that are appended and replies that are generated. It keeps
/// its engine alive.
pub struct Session {
    raw: *mut sys::kimi_session,
    engine: Engine,
}

// SAFETY: a session may change threads between calls. It is not Sync: the interface refuses two
// calls at the same time.
unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: this is our own hold.
        unsafe { sys::kimi_session_destroy(self.raw) }
    }
}

/// Cancels a session's reply from another thread.
pub struct Canceller {
    raw: *mut sys::kimi_session,
    engine: Engine,
}

// SAFETY: cancel, retain and destroy are allowed to every thread that has a hold, beside any other
// call.
unsafe impl Send for Canceller {}
unsafe impl Sync for Canceller {}

impl Canceller {
    /// Ends the reply in progress at its next step. Does nothing when none is in progress.
    pub fn cancel(&self) {
        // SAFETY: we have a hold.
        unsafe { sys::kimi_session_cancel(self.raw) }
    }
}

impl Clone for Canceller {
    fn clone(&self) -> Canceller {
        // SAFETY: we have a hold, from which the clone gets its own.
        let raw = unsafe { sys::kimi_session_retain(self.raw) };
        Canceller { raw, engine: self.engine.clone() }
    }
}

impl Drop for Canceller {
    fn drop(&mut self) {
        // SAFETY: this is our own hold.
        unsafe { sys::kimi_session_destroy(self.raw) }
    }
}

// SAFETY, of all methods: the session lives, and what pointers name outlives the call.
impl Session {
    pub(crate) fn make(
        engine: &Engine,
        function: impl FnOnce(*mut *mut sys::kimi_session, *mut sys::kimi_error) -> sys::kimi_status,
    ) -> Result<Session> {
        let raw = make(ptr::null_mut(), function)?;
        Ok(Session { raw, engine: engine.clone() })
    }

    pub(crate) fn raw(&self) -> *mut sys::kimi_session {
        self.raw
    }

    /// Changes the options from the next reply on.
    pub fn set_options(&mut self, options: &Options) -> Result<()> {
        call(|error| unsafe { sys::kimi_session_set_options(self.raw, &options.raw(), error) })
    }

    /// Appends prompt tokens and starts a new reply.
    pub fn append(&mut self, tokens: &[i32]) -> Result<()> {
        call(|error| unsafe {
            sys::kimi_session_append(self.raw, tokens.as_ptr(), tokens.len(), error)
        })
    }

    /// Appends a conversation, the whole of it, in JSON: `{"messages": [...], "tools": [...], ...}`.
    /// The session keeps what it has already processed.
    pub fn append_chat(&mut self, json: &str) -> Result<()> {
        let data = json.as_ptr() as *const c_char;
        call(|error| unsafe { sys::kimi_session_append_chat(self.raw, data, json.len(), error) })
    }

    /// One bounded piece of work: a chunk of the prompt, or one decode step.
    pub fn step(&mut self) -> Result<Step> {
        let step = initial(sys::kimi_step_init_sized);
        let step = make(step, |out, error| unsafe { sys::kimi_decode_step(self.raw, out, error) })?;
        Ok(unsafe { Step::new(&step) })
    }

    /// Asks for a step that the engine computes in the background.
    pub fn submit(&mut self) -> Result<()> {
        call(|error| unsafe { sys::kimi_session_submit(self.raw, error) })
    }

    /// The submitted step, `None` while it is computed. Never waits.
    pub fn poll(&mut self) -> Result<Option<Step>> {
        let mut ready = 0;
        let step = make(initial(sys::kimi_step_init_sized), |out, error| unsafe {
            sys::kimi_session_poll(self.raw, out, &mut ready, error)
        })?;
        Ok(if ready == 0 { None } else { Some(unsafe { Step::new(&step) }) })
    }

    /// A descriptor that is readable while a submitted step is done and not collected. It is the
    /// session's.
    pub fn wake_fd(&self) -> Result<RawFd> {
        make(-1, |out, error| unsafe { sys::kimi_session_wake_fd(self.raw, out, error) })
    }

    /// One step of each session, computed together; each has its own result. All are of one engine.
    /// Fails as a whole where nothing was computed.
    pub fn step_batch(sessions: &mut [&mut Session]) -> Result<Vec<Result<Step>>> {
        let handles: Vec<_> = sessions.iter().map(|session| session.raw).collect();
        let mut steps: Vec<_> =
            handles.iter().map(|_| initial(sys::kimi_step_init_sized)).collect();
        let result = call(|error| unsafe {
            sys::kimi_decode_batch(handles.as_ptr(), handles.len(), steps.as_mut_ptr(), error)
        });
        if steps.iter().all(|step| step.status == sys::KIMI_OK) {
            result?;
        }
        let own_result = |step: &sys::kimi_step| match step.status {
            sys::KIMI_OK => Ok(unsafe { Step::new(step) }),
            status => {
                let message = unsafe { CStr::from_ptr(step.error) };
                Err(Error { status: status.into(), message: message.to_string_lossy().into() })
            }
        };
        Ok(steps.iter().map(own_result).collect())
    }

    /// The steps up to the end of the reply.
    pub fn steps(&mut self) -> Steps<'_> {
        Steps { session: self, ended: false }
    }

    /// The reply's text in the pieces in which it becomes complete.
    pub fn text(&mut self) -> impl Iterator<Item = Result<String>> + '_ {
        let not_empty = |text: &Result<String>| text.as_ref().map_or(true, |text| !text.is_empty());
        self.steps().map(|step| step.map(|step| step.text)).filter(not_empty)
    }

    fn take_event(&mut self, flags: u32) -> Result<Option<Event>> {
        let event = make(initial(sys::kimi_event_init_sized), |out, error| unsafe {
            sys::kimi_session_next_event(self.raw, flags, out, error)
        })?;
        Ok(unsafe { Event::new(&event) })
    }

    /// The reply's next event, after steps where they are needed; `None` behind its end. An error
    /// other than `Busy` is its end.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        self.take_event(0)
    }

    /// The same without steps: `None` where those so far give no event.
    pub fn waiting_event(&mut self) -> Result<Option<Event>> {
        self.take_event(sys::KIMI_NO_STEP)
    }

    /// The events up to the end of the reply.
    pub fn events(&mut self) -> Events<'_> {
        Events { session: self, ended: false }
    }

    pub fn canceller(&self) -> Canceller {
        let raw = unsafe { sys::kimi_session_retain(self.raw) };
        Canceller { raw, engine: self.engine.clone() }
    }

    /// Tokens of prompts and replies.
    pub fn length(&self) -> u64 {
        unsafe { sys::kimi_session_length(self.raw) }
    }

    /// Drops all tokens from `n` on and ends the reply in progress.
    pub fn truncate(&mut self, n: u64) -> Result<()> {
        call(|error| unsafe { sys::kimi_session_truncate(self.raw, n, error) })
    }

    /// A new session in the same state, a reply in progress included. `None` keeps the options.
    pub fn fork(&mut self, options: Option<&Options>) -> Result<Session> {
        let options = options.map(Options::raw);
        let options = options.as_ref().map_or(ptr::null(), |options| options as *const _);
        Session::make(&self.engine, |out, error| unsafe {
            sys::kimi_session_fork(self.raw, options, out, error)
        })
    }

    /// Writes the session to a file, which appears complete or not at all.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = c_path(path.as_ref())?;
        call(|error| unsafe { sys::kimi_session_save(self.raw, path.as_ptr(), error) })
    }

    /// The same as bytes.
    pub fn to_bytes(&mut self) -> Result<Vec<u8>> {
        fill(0, |data: *mut u8, cap, size, error| unsafe {
            sys::kimi_session_save_buffer(self.raw, data as *mut c_void, cap, size, error)
        })
    }

    pub fn stats(&mut self) -> Result<SessionStatistics> {
        let statistics = initial(sys::kimi_session_statistics_init_sized);
        make(statistics, |out, error| unsafe { sys::kimi_session_stats(self.raw, out, error) })
    }
}
