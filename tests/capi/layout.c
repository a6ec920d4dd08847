/* The numbers that are compiled into programs: constants, and where every member of the public
 * structs lies on 64-bit machines. Lines are only ever added; a struct's size grows with them. */
#include <assert.h>
#include <kimi/kimi.h>

#define AT(type, member, offset) \
    static_assert(offsetof(type, member) == (offset), #type "." #member " moved")
#define SIZE(type, size) static_assert(sizeof(type) == (size), #type " has another size")
#define VALUE(name, value) static_assert((name) == (value), #name " changed")

AT(kimi_error, struct_size, 0);
AT(kimi_error, status, 8);
AT(kimi_error, reserved, 12);
AT(kimi_error, message, 16);
SIZE(kimi_error, 528);

AT(kimi_engine_options, struct_size, 0);
AT(kimi_engine_options, deployment, 8);
AT(kimi_engine_options, progress, 16);
AT(kimi_engine_options, user, 24);
AT(kimi_engine_options, log, 32);
AT(kimi_engine_options, log_user, 40);
AT(kimi_engine_options, allocate, 48);
AT(kimi_engine_options, release, 56);
AT(kimi_engine_options, allocator_user, 64);
SIZE(kimi_engine_options, 72);

AT(kimi_session_options, struct_size, 0);
AT(kimi_session_options, seed, 8);
AT(kimi_session_options, max_tokens, 16);
AT(kimi_session_options, temperature, 20);
AT(kimi_session_options, top_p, 24);
AT(kimi_session_options, min_p, 28);
AT(kimi_session_options, top_k, 32);
AT(kimi_session_options, draft_budget, 36);
AT(kimi_session_options, draft_mode, 40);
AT(kimi_session_options, flags, 44);
AT(kimi_session_options, deadline_ms, 48);
AT(kimi_session_options, logprobs, 52);
SIZE(kimi_session_options, 56);

AT(kimi_logprob, token, 0);
AT(kimi_logprob, logprob, 4);
SIZE(kimi_logprob, 8);

AT(kimi_logit_bias, token, 0);
AT(kimi_logit_bias, bias, 4);
SIZE(kimi_logit_bias, 8);

AT(kimi_step, struct_size, 0);
AT(kimi_step, status, 8);
AT(kimi_step, phase, 12);
AT(kimi_step, finish_reason, 16);
AT(kimi_step, reserved, 20);
AT(kimi_step, tokens, 24);
AT(kimi_step, n_tokens, 32);
AT(kimi_step, text, 40);
AT(kimi_step, text_len, 48);
AT(kimi_step, prompt_done, 56);
AT(kimi_step, prompt_total, 64);
AT(kimi_step, draft_nodes, 72);
AT(kimi_step, draft_accepted, 76);
AT(kimi_step, error, 80);
AT(kimi_step, logprobs, 88);
AT(kimi_step, n_logprobs, 96);
AT(kimi_step, prompt_reused, 104);
SIZE(kimi_step, 112);

AT(kimi_event, struct_size, 0);
AT(kimi_event, kind, 8);
AT(kimi_event, call, 12);
AT(kimi_event, text, 16);
AT(kimi_event, text_len, 24);
AT(kimi_event, id, 32);
AT(kimi_event, id_len, 40);
AT(kimi_event, name, 48);
AT(kimi_event, name_len, 56);
AT(kimi_event, finish_reason, 64);
AT(kimi_event, status, 68);
AT(kimi_event, prompt_tokens, 72);
AT(kimi_event, reply_tokens, 80);
AT(kimi_event, calls, 88);
SIZE(kimi_event, 96);

AT(kimi_session_statistics, struct_size, 0);
AT(kimi_session_statistics, steps, 8);
AT(kimi_session_statistics, committed, 16);
AT(kimi_session_statistics, drafted, 24);
AT(kimi_session_statistics, accepted, 32);
AT(kimi_session_statistics, offered_at, 40);
AT(kimi_session_statistics, accepted_at, 544);
AT(kimi_session_statistics, draft_seconds, 1048);
AT(kimi_session_statistics, tree_seconds, 1056);
AT(kimi_session_statistics, verify_seconds, 1064);
AT(kimi_session_statistics, accept_seconds, 1072);
AT(kimi_session_statistics, compact_seconds, 1080);
AT(kimi_session_statistics, replies, 1088);
AT(kimi_session_statistics, prompt_tokens, 1096);
AT(kimi_session_statistics, prompt_reused, 1104);
AT(kimi_session_statistics, reply_tokens, 1112);
AT(kimi_session_statistics, prefill_seconds, 1120);
AT(kimi_session_statistics, decode_seconds, 1128);
AT(kimi_session_statistics, first_token_seconds, 1136);
AT(kimi_session_statistics, reply_seconds, 1144);
SIZE(kimi_session_statistics, 1152);

AT(kimi_engine_statistics, struct_size, 0);
AT(kimi_engine_statistics, pages, 8);
AT(kimi_engine_statistics, pages_free, 16);
AT(kimi_engine_statistics, pages_cached, 24);
AT(kimi_engine_statistics, pages_evictable, 32);
AT(kimi_engine_statistics, page_bytes, 40);
AT(kimi_engine_statistics, sessions, 48);
AT(kimi_engine_statistics, session_pages, 56);
AT(kimi_engine_statistics, session_runs, 64);
AT(kimi_engine_statistics, prefix_hits, 72);
AT(kimi_engine_statistics, prefix_tokens, 80);
AT(kimi_engine_statistics, pages_evicted, 88);
AT(kimi_engine_statistics, pages_moved, 96);
AT(kimi_engine_statistics, move_seconds, 104);
AT(kimi_engine_statistics, passes, 112);
AT(kimi_engine_statistics, steps, 120);
AT(kimi_engine_statistics, prompt_rows, 128);
AT(kimi_engine_statistics, decode_rows, 136);
AT(kimi_engine_statistics, committed, 144);
AT(kimi_engine_statistics, drafted, 152);
AT(kimi_engine_statistics, accepted, 160);
AT(kimi_engine_statistics, ranks, 168);
AT(kimi_engine_statistics, memory_bytes, 176);
SIZE(kimi_engine_statistics, 184);

AT(kimi_estimate, struct_size, 0);
AT(kimi_estimate, memory_bytes, 8);
AT(kimi_estimate, devices, 16);
AT(kimi_estimate, weights_bytes, 24);
AT(kimi_estimate, workspace_bytes, 32);
AT(kimi_estimate, kv_bytes, 40);
AT(kimi_estimate, kv_token_bytes, 48);
AT(kimi_estimate, capacity_tokens, 56);
SIZE(kimi_estimate, 64);

VALUE(KIMI_OK, 0);
VALUE(KIMI_INVALID_ARGUMENT, -1);
VALUE(KIMI_NOT_FOUND, -2);
VALUE(KIMI_IO, -3);
VALUE(KIMI_CORRUPT, -4);
VALUE(KIMI_UNSUPPORTED, -5);
VALUE(KIMI_OUT_OF_MEMORY, -6);
VALUE(KIMI_DEVICE_OUT_OF_MEMORY, -7);
VALUE(KIMI_TOO_LONG, -8);
VALUE(KIMI_BUSY, -9);
VALUE(KIMI_CANCELLED, -10);
VALUE(KIMI_DEADLINE, -11);
VALUE(KIMI_DEVICE_LOST, -12);
VALUE(KIMI_VERSION_MISMATCH, -13);
VALUE(KIMI_NUMERIC, -14);
VALUE(KIMI_INTERNAL, -15);

VALUE(KIMI_PHASE_PREFILL, 0);
VALUE(KIMI_PHASE_DECODE, 1);
VALUE(KIMI_PHASE_FINISHED, 2);

VALUE(KIMI_FINISH_NONE, 0);
VALUE(KIMI_FINISH_STOP, 1);
VALUE(KIMI_FINISH_LENGTH, 2);
VALUE(KIMI_FINISH_CANCELLED, 3);
VALUE(KIMI_FINISH_DEADLINE, 4);
VALUE(KIMI_FINISH_ERROR, 5);
VALUE(KIMI_FINISH_TOOL_CALLS, 6);
VALUE(KIMI_FINISH_STOP_STRING, 7);
VALUE(KIMI_FINISH_CONSTRAINT, 8);

VALUE(KIMI_EVENT_NONE, 0);
VALUE(KIMI_EVENT_REASONING, 1);
VALUE(KIMI_EVENT_CONTENT, 2);
VALUE(KIMI_EVENT_CALL_BEGIN, 3);
VALUE(KIMI_EVENT_CALL_ARGUMENTS, 4);
VALUE(KIMI_EVENT_CALL, 5);
VALUE(KIMI_EVENT_FINISHED, 6);
VALUE(KIMI_NO_STEP, 1);

VALUE(KIMI_DRAFT_TREE, 0);
VALUE(KIMI_DRAFT_CHAIN, 1);
VALUE(KIMI_AUTO, 4294967295);

VALUE(KIMI_CONSTRAINT_NONE, 0);
VALUE(KIMI_CONSTRAINT_JSON_SCHEMA, 1);
VALUE(KIMI_CONSTRAINT_REGEX, 2);
VALUE(KIMI_CONSTRAINT_TOOLS, 3);

VALUE(KIMI_LOG_ERROR, 1);
VALUE(KIMI_LOG_WARNING, 2);
VALUE(KIMI_LOG_INFO, 3);

VALUE(KIMI_SPECIALS, 1);
VALUE(KIMI_IGNORE_STOP, 1);
VALUE(KIMI_MAX_LOGPROBS, 20);
VALUE(KIMI_MAX_STOP_STRINGS, 16);
VALUE(KIMI_MAX_STOP_BYTES, 256);
VALUE(KIMI_MAX_DRAFT_DEPTH, 63);
VALUE(KIMI_RECOMPUTE, 1);
