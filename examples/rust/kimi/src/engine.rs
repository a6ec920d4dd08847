use crate::call::{c_path, call, initial, make};
use crate::log::Log;
use crate::tokenizer::Tokenizer;
use crate::{Builder, Options, Result, Session};
use kimi_sys as sys;
use std::os::raw::c_void;
use std::path::Path;
use std::sync::Arc;

pub use kimi_sys::kimi_engine_statistics as EngineStatistics;
pub use kimi_sys::kimi_estimate as Estimate;

/// A loaded deployment. Clones are the same engine; its memory returns with the last clone, session
/// and tokenizer of it.
#[derive(Clone)]
pub struct Engine(Arc<Handle>);

/// Sessions hold it too, so that the log lives until nobody is left to call it.
struct Handle {
    raw: *mut sys::kimi_engine,
    _log: Option<Log>,
}

// SAFETY: the interface allows all functions of an engine from any thread, also at the same time.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by kimi_engine_create and destroyed once.
        unsafe { sys::kimi_engine_destroy(self.raw) }
    }
}

impl Engine {
    /// Loads a deployment (JSON or binary) or a checkpoint folder.
    pub fn open(deployment: impl AsRef<Path>) -> Result<Engine> {
        Engine::builder(deployment).open()
    }

    /// The same with functions for progress and log, or an allocator.
    ///
    /// ```no_run
    /// let engine = kimi::Engine::builder("deployment.json")
    ///     .log(|level, line| eprintln!("{level:?}: {line}"))
    ///     .open()?;
    /// # Ok::<(), kimi::Error>(())
    /// ```
    pub fn builder<'a>(deployment: impl AsRef<Path>) -> Builder<'a> {
        Builder::new(deployment.as_ref())
    }

    pub(crate) fn own(raw: *mut sys::kimi_engine, log: Option<Log>) -> Engine {
        Engine(Arc::new(Handle { raw, _log: log }))
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
        Session::make(self, |out, error| unsafe {
            sys::kimi_session_create(self.raw(), &options.raw(), out, error)
        })
    }

    /// A session that [`Session::save`] wrote. With `recompute`, KV that cannot be used is computed
    /// again.
    pub fn restore(&self, path: impl AsRef<Path>, recompute: bool) -> Result<Session> {
        let path = c_path(path.as_ref())?;
        // SAFETY: the engine lives, and path outlives the call.
        Session::make(self, |out, error| unsafe {
            sys::kimi_session_restore(self.raw(), path.as_ptr(), flags(recompute), out, error)
        })
    }

    /// The same from what [`Session::to_bytes`] gave.
    pub fn restore_bytes(&self, bytes: &[u8], recompute: bool) -> Result<Session> {
        // SAFETY: the engine lives, and bytes outlive the call.
        Session::make(self, |out, error| unsafe {
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
        self.0.raw
    }
}

fn flags(recompute: bool) -> u32 {
    if recompute {
        sys::KIMI_RECOMPUTE
    } else {
        0
    }
}
