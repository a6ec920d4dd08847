//! How an engine is loaded.
use crate::call::{c_path, initial, make};
use crate::log::{self, Level, Log};
use crate::memory::{self, Memory};
use crate::{Engine, Result};
use kimi_sys as sys;
use std::alloc::GlobalAlloc;
use std::any::Any;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

/// Loads a deployment with more than its path: see [`Engine::builder`].
pub struct Builder<'a> {
    deployment: PathBuf,
    progress: Option<Box<dyn FnMut(u64, u64) -> bool + 'a>>,
    log: Option<Log>,
    memory: Option<Arc<Memory>>,
}

/// A progress function on its way through C, and the panic that it ended with.
struct Progress<'a> {
    function: Box<dyn FnMut(u64, u64) -> bool + 'a>,
    panic: Option<Box<dyn Any + Send>>,
}

/// Calls the function; `false` and a panic stop the loading.
unsafe extern "C" fn progress(user: *mut c_void, done: u64, total: u64) -> i32 {
    let progress = &mut *(user as *mut Progress);
    let function = &mut progress.function;
    match catch_unwind(AssertUnwindSafe(|| function(done, total))) {
        Ok(go_on) => !go_on as i32,
        Err(panic) => {
            progress.panic = Some(panic);
            1
        }
    }
}

impl<'a> Builder<'a> {
    pub(crate) fn new(deployment: &Path) -> Builder<'a> {
        Builder { deployment: deployment.into(), progress: None, log: None, memory: None }
    }

    /// The function is called while loading, with bytes done and in total, and stops the loading by
    /// returning false. A panic of it stops the loading too and goes on behind it.
    pub fn progress(mut self, function: impl FnMut(u64, u64) -> bool + 'a) -> Builder<'a> {
        self.progress = Some(Box::new(function));
        self
    }

    /// The function gets what happens to the engine, one line at a time, on the thread on which it
    /// happens, and lives as long as the engine. It must not call functions of the engine or its
    /// sessions: they would wait for it. A panic of it ends with it.
    pub fn log(mut self, function: impl FnMut(Level, &str) + Send + 'static) -> Builder<'a> {
        self.log = Some(Log::new(Box::new(function)));
        self
    }

    /// Where the KV cache and the buffers of the passes come from. Other memory is as ever.
    pub fn allocator(mut self, allocator: impl GlobalAlloc + Send + Sync + 'static) -> Builder<'a> {
        self.memory = Some(Arc::new(Memory::new(Box::new(allocator))));
        self
    }

    /// Loads the deployment.
    pub fn open(self) -> Result<Engine> {
        let path = c_path(&self.deployment)?;
        let mut options = initial(sys::kimi_engine_options_init_sized);
        options.deployment = path.as_ptr();
        let mut user = self.progress.map(|function| Progress { function, panic: None });
        if let Some(user) = &mut user {
            options.progress = Some(progress);
            options.user = user as *mut Progress as *mut c_void;
        }
        if let Some(log) = &self.log {
            options.log = Some(log::log);
            options.log_user = log.user();
        }
        if let Some(memory) = &self.memory {
            options.allocate = Some(memory::allocate);
            options.release = Some(memory::release);
            options.allocator_user = Arc::as_ptr(memory) as *mut c_void;
        }
        // SAFETY: path and progress outlive the call, the engine keeps the log, and each piece of
        // memory its allocator.
        let engine = make(ptr::null_mut(), |out, error| unsafe {
            sys::kimi_engine_create(&options, out, error)
        });
        if let Some(panic) = user.and_then(|user| user.panic) {
            resume_unwind(panic);
        }
        Ok(Engine::own(engine?, self.log))
    }
}
