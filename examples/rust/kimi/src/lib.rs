//! libkimi runs Moonshot's Kimi K2.6 inside your program.
//!
//! ```no_run
//! # fn main() -> kimi::Result<()> {
//! let engine = kimi::Engine::open("deployment.json")?;
//! let mut session = engine.session(&kimi::Options::default())?;
//! session.append_chat(r#"{"messages": [{"role": "user", "content": "What is DFlash?"}]}"#)?;
//! for piece in session.text() {
//!     print!("{}", piece?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The header `kimi/kimi.h` is the manual; the methods here have the names of its functions, and
//! documentation where they differ from them.
mod builder;
mod call;
mod constraint;
mod engine;
mod error;
mod event;
mod log;
mod memory;
mod options;
mod session;
mod step;
mod tokenizer;
mod version;

pub use builder::Builder;
pub use constraint::{Constraint, LogitBias};
pub use engine::{Engine, EngineStatistics, Estimate};
pub use error::{Error, Result, Status};
pub use event::{Call, End, Event, Events};
pub use log::Level;
pub use options::{Options, AUTO};
pub use session::{Canceller, Session, SessionStatistics};
pub use step::{Finish, Logprob, Phase, Step, Steps};
pub use tokenizer::Tokenizer;
pub use version::{has_feature, version};
