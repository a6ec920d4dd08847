//! What happens to an engine, told to a function of the program.
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// What a line of an engine's log is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The engine failed.
    Error = 1,
    /// Something will make it slow or small.
    Warning = 2,
    /// What was loaded.
    Info = 3,
}

type Function = Box<dyn FnMut(Level, &str) + Send>;

/// The function, at a place that the library knows. Dropped after the engine's last hold.
pub struct Log(*mut Function);

// SAFETY: the function is Send, and the library never calls it twice at once.
unsafe impl Send for Log {}
unsafe impl Sync for Log {}

impl Log {
    pub fn new(function: Function) -> Log {
        Log(Box::into_raw(Box::new(function)))
    }

    pub fn user(&self) -> *mut c_void {
        self.0 as *mut c_void
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw and dropped once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

pub unsafe extern "C" fn log(user: *mut c_void, level: i32, text: *const c_char) {
    let function = &mut *(user as *mut Function);
    let level = match level {
        1 => Level::Error,
        2 => Level::Warning,
        _ => Level::Info,
    };
    let text = CStr::from_ptr(text).to_string_lossy();
    // A panic must not pass through C++, and there is no caller to hand it to.
    let _ = catch_unwind(AssertUnwindSafe(|| function(level, &text)));
}
