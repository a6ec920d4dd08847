//! Declarations of `kimi/kimi.h`, in its order. The header is the manual; the crate `kimi` is a
//! safe interface.
//!
//! A new function is declared here as in the header; the test suite compares the two lists. A new
//! struct member goes to the struct's end and, with its offset, into `tests/layout.rs`.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_void};

pub type kimi_status = i32;
pub const KIMI_OK: kimi_status = 0;
pub const KIMI_INVALID_ARGUMENT: kimi_status = -1;
pub const KIMI_NOT_FOUND: kimi_status = -2;
pub const KIMI_IO: kimi_status = -3;
pub const KIMI_CORRUPT: kimi_status = -4;
pub const KIMI_UNSUPPORTED: kimi_status = -5;
pub const KIMI_OUT_OF_MEMORY: kimi_status = -6;
pub const KIMI_DEVICE_OUT_OF_MEMORY: kimi_status = -7;
pub const KIMI_TOO_LONG: kimi_status = -8;
pub const KIMI_BUSY: kimi_status = -9;
pub const KIMI_CANCELLED: kimi_status = -10;
pub const KIMI_DEADLINE: kimi_status = -11;
pub const KIMI_DEVICE_LOST: kimi_status = -12;
pub const KIMI_VERSION_MISMATCH: kimi_status = -13;
pub const KIMI_NUMERIC: kimi_status = -14;
pub const KIMI_INTERNAL: kimi_status = -15;

pub const KIMI_PHASE_PREFILL: u32 = 0;
pub const KIMI_PHASE_DECODE: u32 = 1;
pub const KIMI_PHASE_FINISHED: u32 = 2;

pub const KIMI_FINISH_NONE: u32 = 0;
pub const KIMI_FINISH_STOP: u32 = 1;
pub const KIMI_FINISH_LENGTH: u32 = 2;
pub const KIMI_FINISH_CANCELLED: u32 = 3;
pub const KIMI_FINISH_DEADLINE: u32 = 4;
pub const KIMI_FINISH_ERROR: u32 = 5;
pub const KIMI_FINISH_TOOL_CALLS: u32 = 6;
pub const KIMI_FINISH_STOP_STRING: u32 = 7;
pub const KIMI_FINISH_CONSTRAINT: u32 = 8;

pub const KIMI_EVENT_NONE: u32 = 0;
pub const KIMI_EVENT_REASONING: u32 = 1;
pub const KIMI_EVENT_CONTENT: u32 = 2;
pub const KIMI_EVENT_CALL_BEGIN: u32 = 3;
pub const KIMI_EVENT_CALL_ARGUMENTS: u32 = 4;
pub const KIMI_EVENT_CALL: u32 = 5;
pub const KIMI_EVENT_FINISHED: u32 = 6;
pub const KIMI_NO_STEP: u32 = 1;

pub const KIMI_DRAFT_TREE: u32 = 0;
pub const KIMI_DRAFT_CHAIN: u32 = 1;
pub const KIMI_AUTO: u32 = u32::MAX;
pub const KIMI_SPECIALS: u32 = 1;
pub const KIMI_IGNORE_STOP: u32 = 1;
pub const KIMI_CONSTRAINT_NONE: u32 = 0;
pub const KIMI_CONSTRAINT_JSON_SCHEMA: u32 = 1;
pub const KIMI_CONSTRAINT_REGEX: u32 = 2;
pub const KIMI_CONSTRAINT_TOOLS: u32 = 3;
pub const KIMI_LOG_ERROR: i32 = 1;
pub const KIMI_LOG_WARNING: i32 = 2;
pub const KIMI_LOG_INFO: i32 = 3;
pub const KIMI_MAX_LOGPROBS: u32 = 20;
pub const KIMI_MAX_STOP_STRINGS: usize = 16;
pub const KIMI_MAX_STOP_BYTES: usize = 256;
pub const KIMI_RECOMPUTE: u32 = 1;
pub const KIMI_MAX_DRAFT_DEPTH: usize = 63;

macro_rules! handles {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub struct $name {
            opaque: [u8; 0],
        }
    )* };
}
handles! { kimi_engine kimi_tokenizer kimi_session }

#[repr(C)]
pub struct kimi_error {
    pub struct_size: usize,
    pub status: kimi_status,
    pub reserved: u32,
    pub message: [c_char; 512],
}

#[repr(C)]
pub struct kimi_engine_options {
    pub struct_size: usize,
    pub deployment: *const c_char,
    pub progress: Option<unsafe extern "C" fn(user: *mut c_void, done: u64, total: u64) -> i32>,
    pub user: *mut c_void,
    pub log: Option<unsafe extern "C" fn(user: *mut c_void, level: i32, text: *const c_char)>,
    pub log_user: *mut c_void,
    pub allocate: Option<
        unsafe extern "C" fn(user: *mut c_void, bytes: usize, alignment: usize) -> *mut c_void,
    >,
    pub release: Option<unsafe extern "C" fn(user: *mut c_void, memory: *mut c_void, bytes: usize)>,
    pub allocator_user: *mut c_void,
}

#[repr(C)]
pub struct kimi_session_options {
    pub struct_size: usize,
    pub seed: u64,
    pub max_tokens: u32,
    pub temperature: f32,
    pub top_p: f32,
    pub min_p: f32,
    pub top_k: u32,
    pub draft_budget: u32,
    pub draft_mode: u32,
    pub flags: u32,
    pub deadline_ms: u32,
    pub logprobs: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct kimi_logprob {
    pub token: i32,
    pub logprob: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct kimi_logit_bias {
    pub token: i32,
    pub bias: f32,
}

#[repr(C)]
pub struct kimi_step {
    pub struct_size: usize,
    pub status: kimi_status,
    pub phase: u32,
    pub finish_reason: u32,
    pub reserved: u32,
    pub tokens: *const i32,
    pub n_tokens: usize,
    pub text: *const c_char,
    pub text_len: usize,
    pub prompt_done: u64,
    pub prompt_total: u64,
    pub draft_nodes: u32,
    pub draft_accepted: u32,
    pub error: *const c_char,
    pub logprobs: *const kimi_logprob,
    pub n_logprobs: usize,
    pub prompt_reused: u64,
}

#[repr(C)]
pub struct kimi_event {
    pub struct_size: usize,
    pub kind: u32,
    pub call: u32,
    pub text: *const c_char,
    pub text_len: usize,
    pub id: *const c_char,
    pub id_len: usize,
    pub name: *const c_char,
    pub name_len: usize,
    pub finish_reason: u32,
    pub status: kimi_status,
    pub prompt_tokens: u64,
    pub reply_tokens: u64,
    pub calls: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kimi_session_statistics {
    pub struct_size: usize,
    pub steps: u64,
    pub committed: u64,
    pub drafted: u64,
    pub accepted: u64,
    pub offered_at: [u64; KIMI_MAX_DRAFT_DEPTH],
    pub accepted_at: [u64; KIMI_MAX_DRAFT_DEPTH],
    pub draft_seconds: f64,
    pub tree_seconds: f64,
    pub verify_seconds: f64,
    pub accept_seconds: f64,
    pub compact_seconds: f64,
    pub replies: u64,
    pub prompt_tokens: u64,
    pub prompt_reused: u64,
    pub reply_tokens: u64,
    pub prefill_seconds: f64,
    pub decode_seconds: f64,
    pub first_token_seconds: f64,
    pub reply_seconds: f64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kimi_engine_statistics {
    pub struct_size: usize,
    pub pages: u64,
    pub pages_free: u64,
    pub pages_cached: u64,
    pub pages_evictable: u64,
    pub page_bytes: u64,
    pub sessions: u64,
    pub session_pages: u64,
    pub session_runs: u64,
    pub prefix_hits: u64,
    pub prefix_tokens: u64,
    pub pages_evicted: u64,
    pub pages_moved: u64,
    pub move_seconds: f64,
    pub passes: u64,
    pub steps: u64,
    pub prompt_rows: u64,
    pub decode_rows: u64,
    pub committed: u64,
    pub drafted: u64,
    pub accepted: u64,
    pub ranks: u64,
    pub memory_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kimi_estimate {
    pub struct_size: usize,
    pub memory_bytes: u64,
    pub devices: u64,
    pub weights_bytes: u64,
    pub workspace_bytes: u64,
    pub kv_bytes: u64,
    pub kv_token_bytes: u64,
    pub capacity_tokens: u64,
}

extern "C" {
    pub fn kimi_error_init_sized(error: *mut kimi_error, size: usize);
    pub fn kimi_engine_options_init_sized(options: *mut kimi_engine_options, size: usize);
    pub fn kimi_session_options_init_sized(options: *mut kimi_session_options, size: usize);
    pub fn kimi_step_init_sized(step: *mut kimi_step, size: usize);
    pub fn kimi_event_init_sized(event: *mut kimi_event, size: usize);
    pub fn kimi_engine_statistics_init_sized(statistics: *mut kimi_engine_statistics, size: usize);
    pub fn kimi_session_statistics_init_sized(
        statistics: *mut kimi_session_statistics,
        size: usize,
    );
    pub fn kimi_estimate_init_sized(estimate: *mut kimi_estimate, size: usize);

    pub fn kimi_version(number: *mut u32) -> *const c_char;
    pub fn kimi_status_name(status: kimi_status) -> *const c_char;
    pub fn kimi_has_feature(name: *const c_char) -> i32;

    pub fn kimi_engine_create(
        options: *const kimi_engine_options,
        out: *mut *mut kimi_engine,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_deployment_estimate(
        deployment: *const c_char,
        out: *mut kimi_estimate,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_engine_destroy(engine: *mut kimi_engine);

    pub fn kimi_tokenizer_create(
        checkpoint_dir: *const c_char,
        out: *mut *mut kimi_tokenizer,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_tokenizer_destroy(tokenizer: *mut kimi_tokenizer);
    pub fn kimi_engine_tokenizer(engine: *const kimi_engine) -> *const kimi_tokenizer;
    pub fn kimi_tokenize(
        tokenizer: *const kimi_tokenizer,
        text: *const c_char,
        len: usize,
        flags: u32,
        tokens: *mut i32,
        cap: usize,
        n: *mut usize,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_detokenize(
        tokenizer: *const kimi_tokenizer,
        tokens: *const i32,
        n: usize,
        text: *mut c_char,
        cap: usize,
        len: *mut usize,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_chat_render(
        tokenizer: *const kimi_tokenizer,
        json: *const c_char,
        json_len: usize,
        text: *mut c_char,
        cap: usize,
        len: *mut usize,
        error: *mut kimi_error,
    ) -> kimi_status;

    pub fn kimi_session_create(
        engine: *mut kimi_engine,
        options: *const kimi_session_options,
        out: *mut *mut kimi_session,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_set_options(
        session: *mut kimi_session,
        options: *const kimi_session_options,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_set_constraint(
        session: *mut kimi_session,
        kind: u32,
        text: *const c_char,
        len: usize,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_set_logit_bias(
        session: *mut kimi_session,
        biases: *const kimi_logit_bias,
        n: usize,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_set_stop_strings(
        session: *mut kimi_session,
        strings: *const *const c_char,
        n: usize,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_retain(session: *mut kimi_session) -> *mut kimi_session;
    pub fn kimi_session_destroy(session: *mut kimi_session);
    pub fn kimi_session_append(
        session: *mut kimi_session,
        tokens: *const i32,
        n: usize,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_append_chat(
        session: *mut kimi_session,
        json: *const c_char,
        len: usize,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_decode_step(
        session: *mut kimi_session,
        out: *mut kimi_step,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_decode_batch(
        sessions: *const *mut kimi_session,
        n: usize,
        out: *mut kimi_step,
        error: *mut kimi_error,
    ) -> kimi_status;

    pub fn kimi_session_next_event(
        session: *mut kimi_session,
        flags: u32,
        out: *mut kimi_event,
        error: *mut kimi_error,
    ) -> kimi_status;

    pub fn kimi_session_submit(session: *mut kimi_session, error: *mut kimi_error) -> kimi_status;
    pub fn kimi_session_poll(
        session: *mut kimi_session,
        out: *mut kimi_step,
        ready: *mut i32,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_wake_fd(
        session: *mut kimi_session,
        fd: *mut i32,
        error: *mut kimi_error,
    ) -> kimi_status;

    pub fn kimi_session_length(session: *const kimi_session) -> u64;
    pub fn kimi_session_truncate(
        session: *mut kimi_session,
        n: u64,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_fork(
        source: *mut kimi_session,
        options: *const kimi_session_options,
        out: *mut *mut kimi_session,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_save(
        session: *mut kimi_session,
        path: *const c_char,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_save_buffer(
        session: *mut kimi_session,
        buffer: *mut c_void,
        cap: usize,
        size: *mut usize,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_restore(
        engine: *mut kimi_engine,
        path: *const c_char,
        flags: u32,
        out: *mut *mut kimi_session,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_restore_buffer(
        engine: *mut kimi_engine,
        buffer: *const c_void,
        size: usize,
        flags: u32,
        out: *mut *mut kimi_session,
        error: *mut kimi_error,
    ) -> kimi_status;

    pub fn kimi_engine_stats(
        engine: *mut kimi_engine,
        out: *mut kimi_engine_statistics,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_engine_save_trace(
        engine: *mut kimi_engine,
        path: *const c_char,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_engine_defragment(engine: *mut kimi_engine, error: *mut kimi_error) -> kimi_status;
    pub fn kimi_session_stats(
        session: *mut kimi_session,
        out: *mut kimi_session_statistics,
        error: *mut kimi_error,
    ) -> kimi_status;
    pub fn kimi_session_cancel(session: *mut kimi_session);
}
