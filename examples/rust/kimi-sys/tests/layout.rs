//! The structs lie in memory as the header's do on 64-bit machines.
#![cfg(target_pointer_width = "64")]

use std::mem::{size_of, MaybeUninit};
use std::ptr::addr_of;

/// Offsets of all members, in order, and the size.
macro_rules! layout {
    ($type:ident { $($member:ident: $offset:expr),* } $size:expr) => {
        #[test]
        fn $type() {
            let value = MaybeUninit::<kimi_sys::$type>::uninit();
            let base = value.as_ptr();
            // SAFETY: addr_of! computes addresses inside of value and reads nothing.
            let offsets = unsafe { [$(addr_of!((*base).$member) as usize),*] };
            let expected = [$($offset),*];
            for (offset, expected) in offsets.iter().zip(expected) {
                assert_eq!(offset - base as usize, expected, "of {:?}", expected);
            }
            assert_eq!(size_of::<kimi_sys::$type>(), $size);
        }
    };
}

layout!(kimi_error {
    struct_size: 0, status: 8, reserved: 12, message: 16
} 528);
layout!(kimi_engine_options {
    struct_size: 0, deployment: 8, progress: 16, user: 24, log: 32, log_user: 40, allocate: 48, release: 56, allocator_user: 64
} 72);
layout!(kimi_session_options {
    struct_size: 0, seed: 8, max_tokens: 16, temperature: 20, top_p: 24, min_p: 28, top_k: 32, draft_budget: 36, draft_mode: 40, flags: 44, deadline_ms: 48, logprobs: 52
} 56);
layout!(kimi_logprob {
    token: 0, logprob: 4
} 8);
layout!(kimi_logit_bias {
    token: 0, bias: 4
} 8);
layout!(kimi_step {
    struct_size: 0, status: 8, phase: 12, finish_reason: 16, reserved: 20, tokens: 24, n_tokens: 32, text: 40, text_len: 48, prompt_done: 56, prompt_total: 64, draft_nodes: 72, draft_accepted: 76, error: 80, logprobs: 88, n_logprobs: 96, prompt_reused: 104
} 112);
layout!(kimi_event {
    struct_size: 0, kind: 8, call: 12, text: 16, text_len: 24, id: 32, id_len: 40, name: 48, name_len: 56, finish_reason: 64, status: 68, prompt_tokens: 72, reply_tokens: 80, calls: 88
} 96);
layout!(kimi_session_statistics {
    struct_size: 0, steps: 8, committed: 16, drafted: 24, accepted: 32, offered_at: 40, accepted_at: 544, draft_seconds: 1048, tree_seconds: 1056, verify_seconds: 1064, accept_seconds: 1072, compact_seconds: 1080, replies: 1088, prompt_tokens: 1096, prompt_reused: 1104, reply_tokens: 1112, prefill_seconds: 1120, decode_seconds: 1128, first_token_seconds: 1136, reply_seconds: 1144
} 1152);
layout!(kimi_engine_statistics {
    struct_size: 0, pages: 8, pages_free: 16, pages_cached: 24, pages_evictable: 32, page_bytes: 40, sessions: 48, session_pages: 56, session_runs: 64, prefix_hits: 72, prefix_tokens: 80, pages_evicted: 88, pages_moved: 96, move_seconds: 104, passes: 112, steps: 120, prompt_rows: 128, decode_rows: 136, committed: 144, drafted: 152, accepted: 160, ranks: 168, memory_bytes: 176
} 184);
layout!(kimi_estimate {
    struct_size: 0, memory_bytes: 8, devices: 16, weights_bytes: 24, workspace_bytes: 32, kv_bytes: 40, kv_token_bytes: 48, capacity_tokens: 56
} 64);
