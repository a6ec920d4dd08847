use crate::call::{c_path, call, initial, make};
use crate::tokenizer::Tokenizer;
use crate::{Options, Result, Session};
use kimi_sys as sys;
use std::any::Any;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

pub use kimi_sys::kimi_engine_statistics as EngineStatistics;
pub use kimi_sys::kimi_estimate as Estimate;

/// A loaded deployment. Clones are the same engine; its memory returns with the last clone, session
/// and tokenizer of it.
#[derive(Clone)]
pub struct Engine(Arc<Handle>);

struct Handle(*mut sys::kimi_engine);

// SAFETY: the interface allows all functions of an engine from any thread, also at the same time.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by kimi_engine_create and destroyed once.
        unsafe { sys::kimi_engine_destroy(self.0) }
    }
}

/// A progress function on its way through C, and the panic that it ended with.
struct Progress<F> {
    function: F,
    panic: Option<Box<dyn Any + Send>>,
}

/// Calls the function; `false` and a panic stop the loading.
unsafe extern "C" fn progress<F: FnMut(u64, u64) -> bool>(
    user: *mut c_void,
    done: u64,
    total: u64,
) -> i32 {
    let progress = &mut *(user as *mut Progress<F>);
    let function = &mut progress.function;
    match catch_unwind(AssertUnwindSafe(|| function(done, total))) {
        Ok(go_on) => !go_on as i32,
        Err(panic) => {
            progress.panic = Some(panic);
            1
        }
    }
}

impl Engine {
    /// Loads a deployment (JSON or binary) or a checkpoint folder.
    pub fn open(deployment: impl AsRef<Path>) -> Result<Engine> {
        Engine::open_with_progress(deployment, |_, _| true)
    }

    /// The same; `progress` is called with bytes done and in total, and stops the loading by
    /// returning false.
    pub fn open_with_progress<F: FnMut(u64, u64) -> bool>(
        deployment: impl AsRef<Path>,
        function: F,
    ) -> Result<Engine> {
        let path = c_path(deployment.as_ref())?;
        let mut user = Progress { function, panic: None };
        let mut options = initial(sys::kimi_engine_options_init_sized);
        options.deployment = path.as_ptr();
        options.progress = Some(progress::<F>);
        options.user = &mut user as *mut Progress<F> as *mut c_void;
        // SAFETY: path and user outlive the call, and progress is called during it only.
        let engine = make(ptr::null_mut(), |out, error| unsafe {
            sys::kimi_engine_create(&options, out, error)
        });
        if let Some(panic) = user.panic {
            resume_unwind(panic);
        }
        Ok(Engine(Arc::new(Handle(engine?))))
    }

    /// What a deployment would need and what fits, before it is loaded. `memory_bytes` is that of
    /// one device, 0 asks the machine.
    pub fn estimate(deployment: impl AsRef<Path>, memory_bytes: u64) -> Result<Estimate> {
        let path = c_path(deployment.as_ref())?;
        let mut estimate = initial(sys::kimi_estimate_init_sized);
        estimate.memory_bytes = memory_bytes;
        // SAFETY: path outlives the call.
        make(estimate, |out, error| unsafe {
            sys::kimi_deployment_estimate(path.as_ptr(), out, error)
        })
    }

    /// The engine's own tokenizer.
    pub fn tokenizer(&self) -> Tokenizer {
        Tokenizer::of_engine(self)
    }

    /// A new, empty session.
    pub fn session(&self, options: &Options) -> Result<Session> {
        // SAFETY: the engine lives.
        Session::make(|out, error| unsafe {
            sys::kimi_session_create(self.raw(), &options.raw(), out, error)
        })
    }

    /// A session that [`Session::save`] wrote. With `recompute`, KV that cannot be used is computed
    /// again.
    pub fn restore(&self, path: impl AsRef<Path>, recompute: bool) -> Result<Session> {
        let path = c_path(path.as_ref())?;
        // SAFETY: the engine lives, and path outlives the call.
        Session::make(|out, error| unsafe {
            sys::kimi_session_restore(self.raw(), path.as_ptr(), flags(recompute), out, error)
        })
    }

    /// The same from what [`Session::to_bytes`] gave.
    pub fn restore_bytes(&self, bytes: &[u8], recompute: bool) -> Result<Session> {
        // SAFETY: the engine lives, and bytes outlive the call.
        Session::make(|out, error| unsafe {
            let data = bytes.as_ptr() as *const c_void;
            sys::kimi_session_restore_buffer(
                self.raw(),
                data,
                bytes.len(),
                flags(recompute),
                out,
                error,
            )
        })
    }

    pub fn stats(&self) -> Result<EngineStatistics> {
        let statistics = initial(sys::kimi_engine_statistics_init_sized);
        // SAFETY: the engine lives.
        make(statistics, |out, error| unsafe { sys::kimi_engine_stats(self.raw(), out, error) })
    }

    /// Writes what every device did to a file, as a trace in Chrome's JSON format.
    pub fn save_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = c_path(path.as_ref())?;
        // SAFETY: the engine lives, and path outlives the call.
        call(|error| unsafe { sys::kimi_engine_save_trace(self.raw(), path.as_ptr(), error) })
    }

    /// Moves KV pages until every sequence is contiguous.
    pub fn defragment(&self) -> Result<()> {
        // SAFETY: the engine lives.
        call(|error| unsafe { sys::kimi_engine_defragment(self.raw(), error) })
    }

    pub(crate) fn raw(&self) -> *mut sys::kimi_engine {
        self.0 .0
    }
}

fn flags(recompute: bool) -> u32 {
    if recompute {
        sys::KIMI_RECOMPUTE
    } else {
        0
    }
}
