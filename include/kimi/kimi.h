/* libkimi: Kimi K2.6 inside your program.
 *
 * Conventions
 *   - Status: every function that can fail returns a kimi_status, 0 on success and negative
 * otherwise, and takes an optional kimi_error (NULL is allowed) that receives the status and a text
 * naming the argument, file, tensor or field. On success it receives KIMI_OK and an empty text. The
 * record is the caller's; the library keeps no global or thread-local error state. On failure,
 * outputs are left untouched unless said otherwise.
 *   - Structs: the first member of each is struct_size. Initialise a struct with its kimi_X_init
 * macro, then set what you need. Structs only grow at the end, so old programs keep working.
 *   - Text is UTF-8 with an explicit length, and need not be NUL-terminated. `const char *`
 * parameters without a length are NUL-terminated.
 *   - Output buffers: where `cap` is too small, the needed size is still written to the size output
 *     and the status is KIMI_TOO_LONG; the buffer's contents are then unspecified. A NULL buffer
 *     with cap 0 asks for the size.
 *   - Handles are counted: a session keeps its engine alive. Destroy functions take NULL and may be
 *     called in any order.
 *   - Threads: an engine and a tokenizer may be used from any number of threads. A session is used
 *     by one thread at a time; using it from two at once is KIMI_INVALID_ARGUMENT. Only
 *     kimi_session_cancel, _retain and _wake_fd, and _destroy by another holder, may be called
 *     beside another call on the session.
 *   - fork(): a child of fork() has copies of the handles, but none of the threads behind them. It
 *     must not pass one to any function, destroy functions included, nor read a session's
 *     descriptor; it may exec, _exit or exit, and the parent's handles are as before.
 *     (kimi_session_fork copies a session, within a process.)
 *   - The library never prints, aborts, exits, installs signal handlers, reads the environment or
 *     depends on the current directory (except to resolve a relative path that you pass in).
 */
#ifndef KIMI_KIMI_H
#define KIMI_KIMI_H

#include <stddef.h>
#include <stdint.h>

#define KIMI_VERSION_MAJOR 0
#define KIMI_VERSION_MINOR 1
#define KIMI_VERSION_PATCH 0
/* Of this header; grows with every version. */
#define KIMI_VERSION_NUMBER \
    (KIMI_VERSION_MAJOR * 1000000 + KIMI_VERSION_MINOR * 1000 + KIMI_VERSION_PATCH)

#if defined(__GNUC__)
#define KIMI_API __attribute__((visibility("default")))
#else
#define KIMI_API
#endif

#ifdef __cplusplus
#define KIMI_NOEXCEPT noexcept
extern "C" {
#else
#define KIMI_NOEXCEPT
#endif

typedef int32_t kimi_status;
enum {
    KIMI_OK = 0,
    KIMI_INVALID_ARGUMENT = -1,     /* an argument, option or JSON field is wrong */
    KIMI_NOT_FOUND = -2,            /* a file or folder does not exist */
    KIMI_IO = -3,                   /* a file exists but cannot be read or written */
    KIMI_CORRUPT = -4,              /* a file contradicts itself or another file */
    KIMI_UNSUPPORTED = -5,          /* valid, but not something this library or build does */
    KIMI_OUT_OF_MEMORY = -6,        /* host memory */
    KIMI_DEVICE_OUT_OF_MEMORY = -7, /* memory of a GPU */
    KIMI_TOO_LONG = -8,   /* over the context limit, a constraint too complex, a buffer too small */
    KIMI_BUSY = -9,       /* no capacity left now: KV pages are used by other sessions */
    KIMI_CANCELLED = -10, /* a progress callback asked to stop */
    KIMI_DEADLINE = -11,  /* a time limit passed; replies end with KIMI_FINISH_DEADLINE instead */
    KIMI_DEVICE_LOST = -12,      /* the engine can no longer compute: destroy it */
    KIMI_VERSION_MISMATCH = -13, /* made by or for another version of the library */
    KIMI_NUMERIC = -14,          /* the model produced NaN or Inf */
    KIMI_INTERNAL = -15          /* a bug in the library: the engine refuses further work */
};

enum { KIMI_PHASE_PREFILL = 0, KIMI_PHASE_DECODE = 1, KIMI_PHASE_FINISHED = 2 };

enum {
    KIMI_FINISH_NONE = 0,        /* the reply goes on */
    KIMI_FINISH_STOP = 1,        /* a stop token: <|im_end|>, [EOS] or [EOT] */
    KIMI_FINISH_LENGTH = 2,      /* max_tokens or the context limit */
    KIMI_FINISH_CANCELLED = 3,   /* kimi_session_cancel */
    KIMI_FINISH_DEADLINE = 4,    /* deadline_ms */
    KIMI_FINISH_ERROR = 5,       /* the step's status says why */
    KIMI_FINISH_TOOL_CALLS = 6,  /* a stop token behind one complete tool call or more */
    KIMI_FINISH_STOP_STRING = 7, /* kimi_session_set_stop_strings */
    KIMI_FINISH_CONSTRAINT = 8   /* the constraint allows no further token */
};

enum { KIMI_DRAFT_TREE = 0, KIMI_DRAFT_CHAIN = 1 };

#define KIMI_AUTO UINT32_MAX

/* Flag of kimi_tokenize: special names in the text (such as <|im_end|>) become their token. Without
 * it they are encoded as ordinary text, which is what user input needs. */
enum { KIMI_SPECIALS = 1 };

/* Flag of kimi_session_options: stop tokens do not end the reply. */
enum { KIMI_IGNORE_STOP = 1 };

/* Kinds of kimi_session_set_constraint. */
enum {
    KIMI_CONSTRAINT_NONE = 0,
    KIMI_CONSTRAINT_JSON_SCHEMA = 1,
    KIMI_CONSTRAINT_REGEX = 2,
    KIMI_CONSTRAINT_TOOLS = 3
};

/* Levels of kimi_engine_options.log. */
enum { KIMI_LOG_ERROR = 1, KIMI_LOG_WARNING = 2, KIMI_LOG_INFO = 3 };

enum { KIMI_MAX_LOGPROBS = 20 };
enum { KIMI_MAX_STOP_STRINGS = 16, KIMI_MAX_STOP_BYTES = 256 };

typedef struct kimi_engine kimi_engine;
typedef struct kimi_tokenizer kimi_tokenizer;
typedef struct kimi_session kimi_session;

/* What went wrong. message is NUL-terminated UTF-8, cut at a character border where it does not
 * fit. */
typedef struct kimi_error {
    size_t struct_size;
    kimi_status status;
    uint32_t reserved;
    char message[512];
} kimi_error;

typedef struct kimi_engine_options {
    size_t struct_size;
    const char *deployment; /* path of a deployment (JSON or binary) or of a checkpoint folder */
    /* Called on the creating thread while loading, with bytes done and in total. A non-zero result
     * stops loading with KIMI_CANCELLED. May be NULL. */
    int32_t (*progress)(void *user, uint64_t done, uint64_t total);
    void *user; /* handed to progress */
    /* Receives what happens to the engine, one line of text at a time: KIMI_LOG_INFO while it is
     * loaded (model, ranks, drafter, memory), KIMI_LOG_WARNING for what will make it slow or small,
     * KIMI_LOG_ERROR when it fails. Steps that work log nothing. The text is NUL-terminated and
     * valid during the call. Called on the creating thread while loading; later on the thread that
     * computes a step, which may be the engine's own, or that gives up the engine's last hold.
     * Never called twice at once, and not after the engine and its last session are destroyed. It
     * must not call functions of this engine or its sessions. May be NULL. */
    void (*log)(void *user, int32_t level, const char *text);
    void *log_user; /* handed to log */
    /* Where the engine's large memory comes from: the KV cache and the buffers of the passes, which
     * are reserved while loading. Both are NULL (the system's, which is taken up only as it is
     * used) or neither. allocate returns bytes at a multiple of alignment, a power of two, or NULL
     * for KIMI_OUT_OF_MEMORY; the engine clears them at once. release gets what allocate returned.
     * Any thread that creates, loads or destroys calls them. The model's files are mapped, and what
     * is small (sessions, tokenizer, constraints) uses malloc. */
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *allocator_user; /* handed to allocate and release */
} kimi_engine_options;

typedef struct kimi_session_options {
    size_t struct_size;
    uint64_t seed;         /* of the sampling noise; the same seed gives the same text */
    uint32_t max_tokens;   /* tokens per reply; 0: up to the context limit */
    float temperature;     /* >= 0; 0 is greedy. Default 1 */
    float top_p;           /* 0..1; 0 or 1 is off. Default 0.95 */
    float min_p;           /* 0..1, relative to the likeliest token; 0 is off */
    uint32_t top_k;        /* 0 is off */
    uint32_t draft_budget; /* drafted tokens per step, 0..63, or KIMI_AUTO (default); 0 is off */
    uint32_t draft_mode;   /* KIMI_DRAFT_TREE (default) or KIMI_DRAFT_CHAIN */
    uint32_t flags;        /* KIMI_IGNORE_STOP or 0 */
    uint32_t
        deadline_ms;   /* of a reply, from its append on; 0: none. Restored sessions start anew */
    uint32_t logprobs; /* log probabilities in steps: 0 is off, n of 1..KIMI_MAX_LOGPROBS gives
                          those of each token and of the n likeliest in its place */
} kimi_session_options;

/* What is added to a token's logit before sampling: -100..100; +-100 all but forces or forbids. */
typedef struct kimi_logit_bias {
    int32_t token;
    float bias;
} kimi_logit_bias;

/* The logarithm of a token's probability by the model alone: log-softmax of its logits, before
 * constraint, bias, temperature and the other options. It does not depend on drafting. */
typedef struct kimi_logprob {
    int32_t token;
    float logprob;
} kimi_logprob;

/* What one step did. tokens, text, error and logprobs belong to the session and are valid until its
 * next call. */
typedef struct kimi_step {
    size_t struct_size;
    kimi_status status;     /* the result of this session's step */
    uint32_t phase;         /* KIMI_PHASE_*: what comes next */
    uint32_t finish_reason; /* KIMI_FINISH_*, set together with the reply's last tokens */
    uint32_t reserved;
    const int32_t *tokens; /* tokens committed by this step, including the stop token */
    size_t n_tokens;
    const char *text;     /* whole UTF-8 characters that became complete, without the stop token */
    size_t text_len;      /* bytes */
    uint64_t prompt_done; /* prompt tokens processed so far, of prompt_total */
    uint64_t prompt_total;
    uint32_t draft_nodes;    /* tokens drafted and verified in this step */
    uint32_t draft_accepted; /* of these, committed */
    const char *error;       /* the text of a status that is not KIMI_OK, otherwise "" */
    /* Of each token, 1 + n entries, where n is the option logprobs: its own, then the n likeliest,
     * in falling order, the lower token first where equal. */
    const kimi_logprob *logprobs;
    size_t n_logprobs;      /* n_tokens * (1 + n); 0 where the option is off */
    uint64_t prompt_reused; /* of prompt_total: were processed before, here or in other sessions */
} kimi_step;

/* Kinds of events: see kimi_session_next_event. */
enum {
    KIMI_EVENT_NONE = 0,
    KIMI_EVENT_REASONING = 1,      /* text is the next piece of the reasoning */
    KIMI_EVENT_CONTENT = 2,        /* text is the next piece of the answer */
    KIMI_EVENT_CALL_BEGIN = 3,     /* a tool call begins */
    KIMI_EVENT_CALL_ARGUMENTS = 4, /* text is the next piece of the call's arguments */
    KIMI_EVENT_CALL = 5,           /* the call is complete; text is all of its arguments */
    KIMI_EVENT_FINISHED = 6        /* the reply is over */
};

/* Flag of kimi_session_next_event: it runs no steps. */
enum { KIMI_NO_STEP = 1 };

/* A part of a reply. What its pointers name belongs to the session and is valid until its next
 * call. Members that the kind does not have are 0. */
typedef struct kimi_event {
    size_t struct_size;
    uint32_t kind;    /* KIMI_EVENT_* */
    uint32_t call;    /* of calls: the place in the reply, from 0 */
    const char *text; /* whole UTF-8 characters */
    size_t text_len;  /* bytes */
    const char *id;   /* of calls: functions.NAME:N, which no other call of the reply has */
    size_t id_len;
    const char *name; /* of calls: the function */
    size_t name_len;
    /* Of KIMI_EVENT_FINISHED: */
    uint32_t finish_reason; /* KIMI_FINISH_* */
    kimi_status status;     /* of KIMI_FINISH_ERROR: why */
    uint64_t prompt_tokens; /* before the reply, earlier turns included */
    uint64_t reply_tokens;  /* including the stop token */
    uint64_t calls;         /* that are complete */
} kimi_event;

enum { KIMI_MAX_DRAFT_DEPTH = 63 };

/* What a session's steps did since it was created. Times are in seconds; a pass that served several
 * sessions counts for each of them. */
typedef struct kimi_session_statistics {
    size_t struct_size;
    uint64_t steps;     /* decode steps */
    uint64_t committed; /* tokens they committed */
    uint64_t drafted;   /* drafted tokens they verified */
    uint64_t accepted;  /* of these, committed */
    /* By depth d at [d - 1]: steps whose tree reached it, and steps that accepted a token there. */
    uint64_t offered_at[KIMI_MAX_DRAFT_DEPTH];
    uint64_t accepted_at[KIMI_MAX_DRAFT_DEPTH];
    double draft_seconds, tree_seconds, verify_seconds, accept_seconds, compact_seconds;
    uint64_t replies;       /* begun */
    uint64_t prompt_tokens; /* processed for them */
    uint64_t prompt_reused; /* that did not have to be, because they were before */
    uint64_t reply_tokens;  /* committed, the first of each reply and stop tokens included */
    double prefill_seconds, decode_seconds; /* of the passes for prompts and for decode steps */
    /* Of the last reply, from its append to the first and to the latest of its tokens. */
    double first_token_seconds, reply_seconds;
} kimi_session_statistics;

/* The KV memory of an engine, and what it computed since it was created. A page holds 64 tokens in
 * all layers. A pass is one run through the model; it serves the steps of one or more sessions. */
typedef struct kimi_engine_statistics {
    size_t struct_size;
    uint64_t pages;        /* in the pool */
    uint64_t pages_free;   /* nobody uses them */
    uint64_t pages_cached; /* prefixes kept for later sessions; some are in use by sessions too */
    uint64_t pages_evictable; /* cached pages that are given up when needed */
    uint64_t page_bytes;
    uint64_t sessions;      /* that have pages */
    uint64_t session_pages; /* of these, shared pages counted each time */
    uint64_t session_runs;  /* contiguous pieces that the sessions' pages form */
    uint64_t prefix_hits;   /* prompts that began with cached pages */
    uint64_t prefix_tokens; /* tokens that did not have to be processed */
    uint64_t pages_evicted;
    uint64_t pages_moved; /* by defragmentation */
    double move_seconds;
    uint64_t passes;
    uint64_t steps;       /* of sessions, served by the passes */
    uint64_t prompt_rows; /* tokens of prompts that they processed */
    uint64_t decode_rows; /* last tokens of replies, and drafted ones */
    uint64_t committed;   /* tokens of replies */
    uint64_t drafted;     /* tokens, verified by the passes */
    uint64_t accepted;    /* of these, committed */
    uint64_t ranks;
    uint64_t memory_bytes; /* reserved for KV cache and buffers */
} kimi_engine_statistics;

/* What each device of a deployment needs. */
typedef struct kimi_estimate {
    size_t struct_size;
    /* In and out: memory of one device. 0 on input asks the machine: the part of its memory that
     * one rank has of a CPU; a GPU's stays 0, unknown, where its backend cannot be asked. */
    uint64_t memory_bytes;
    uint64_t devices;
    uint64_t weights_bytes;   /* target and drafter; on a CPU the size of what is mapped */
    /* Activations, partial results and tables, estimated; on a GPU also its graphs.memory_mib. */
    uint64_t workspace_bytes;
    uint64_t kv_bytes;        /* the pool as the deployment wants it, the drafter's part included */
    uint64_t kv_token_bytes;  /* of these, for one token of context */
    /* Tokens of KV that fit beside weights and workspace, in whole pages, all sessions together; 0
     * where memory_bytes is unknown or too small. */
    uint64_t capacity_tokens;
} kimi_estimate;

/* Set defaults. Use the macros, so that a program keeps the struct size it was compiled with. */
KIMI_API void kimi_error_init_sized(kimi_error *error, size_t size) KIMI_NOEXCEPT;
KIMI_API void kimi_engine_options_init_sized(kimi_engine_options *options,
                                             size_t size) KIMI_NOEXCEPT;
KIMI_API void kimi_session_options_init_sized(kimi_session_options *options,
                                              size_t size) KIMI_NOEXCEPT;
KIMI_API void kimi_step_init_sized(kimi_step *step, size_t size) KIMI_NOEXCEPT;
KIMI_API void kimi_event_init_sized(kimi_event *event, size_t size) KIMI_NOEXCEPT;
KIMI_API void kimi_engine_statistics_init_sized(kimi_engine_statistics *statistics,
                                                size_t size) KIMI_NOEXCEPT;
KIMI_API void kimi_session_statistics_init_sized(kimi_session_statistics *statistics,
                                                 size_t size) KIMI_NOEXCEPT;
KIMI_API void kimi_estimate_init_sized(kimi_estimate *estimate, size_t size) KIMI_NOEXCEPT;
#define kimi_error_init(p) kimi_error_init_sized((p), sizeof *(p))
#define kimi_engine_options_init(p) kimi_engine_options_init_sized((p), sizeof *(p))
#define kimi_session_options_init(p) kimi_session_options_init_sized((p), sizeof *(p))
#define kimi_step_init(p) kimi_step_init_sized((p), sizeof *(p))
#define kimi_event_init(p) kimi_event_init_sized((p), sizeof *(p))
#define kimi_engine_statistics_init(p) kimi_engine_statistics_init_sized((p), sizeof *(p))
#define kimi_session_statistics_init(p) kimi_session_statistics_init_sized((p), sizeof *(p))
#define kimi_estimate_init(p) kimi_estimate_init_sized((p), sizeof *(p))

/* ---- Library ---- */

/* The version of the library that runs, which need not be that of the header: "MAJOR.MINOR.PATCH",
 * and as a number like KIMI_VERSION_NUMBER in *number, where that is not NULL. The text is static.
 * Any thread. */
KIMI_API const char *kimi_version(uint32_t *number) KIMI_NOEXCEPT;

/* The name of a status, such as "KIMI_BUSY"; "unknown status" for one that this version does not
 * have. The text is static. Any thread. */
KIMI_API const char *kimi_status_name(kimi_status status) KIMI_NOEXCEPT;

/* 1 where this library, on this machine, has the feature, otherwise 0: also for NULL and for names
 * that it does not know, so that a program may ask for what only newer versions have. Names:
 *   cpu             deployments with backend cpu
 *   cuda            deployments with backend cuda: libkimi-cuda.so, beside this library, opens and
 *                   finds a driver and a GPU that it can use. Asking loads it, and it stays loaded
 *   drafter         DFlash drafters and tree verification
 *   constraint      kimi_session_set_constraint
 *   logit_bias      kimi_session_set_logit_bias
 *   stop_strings    kimi_session_set_stop_strings
 *   events          kimi_session_next_event
 *   background      kimi_session_submit, kimi_session_poll, kimi_session_wake_fd
 *   logprobs        the option logprobs of sessions
 *   deadline        the option deadline_ms of sessions
 *   trace           kimi_engine_save_trace
 *   avx2, avx512    the instructions that cpu computes with; plain x86-64 code where neither is
 * Any thread. */
KIMI_API int32_t kimi_has_feature(const char *name) KIMI_NOEXCEPT;

/* ---- Engine ---- */

/* Loads a deployment: opens and checks the checkpoint, reserves all memory that decoding will need
 * and starts the worker threads. The checkpoint's files stay mapped while the engine lives;
 * truncating one of them meanwhile is undefined. *out is set to NULL on failure. Errors: any
 * status; the text names the file, tensor or field. Any thread. */
KIMI_API kimi_status kimi_engine_create(const kimi_engine_options *options, kimi_engine **out,
                                        kimi_error *error) KIMI_NOEXCEPT;

/* What a deployment would need and what fits, before anything is loaded: of the checkpoint only
 * config.json and the index are read. Errors: as kimi_engine_create for these files. Any thread. */
KIMI_API kimi_status kimi_deployment_estimate(const char *deployment, kimi_estimate *out,
                                              kimi_error *error) KIMI_NOEXCEPT;

/* Gives up the caller's hold. When the engine's last session is destroyed too, its memory returns
 * and its threads end. A thread that hangs is waited for 5 seconds at most and then left behind,
 * with the memory that it uses. NULL is allowed. Any thread, not from a callback. */
KIMI_API void kimi_engine_destroy(kimi_engine *engine) KIMI_NOEXCEPT;

/* ---- Text ---- */

/* Opens the tokenizer of a checkpoint folder; only tiktoken.model is needed, tokenizer_config.json
 * is read where present. Errors: KIMI_NOT_FOUND, KIMI_IO, KIMI_CORRUPT, KIMI_OUT_OF_MEMORY. Any
 * thread. */
KIMI_API kimi_status kimi_tokenizer_create(const char *checkpoint_dir, kimi_tokenizer **out,
                                           kimi_error *error) KIMI_NOEXCEPT;
KIMI_API void kimi_tokenizer_destroy(kimi_tokenizer *tokenizer) KIMI_NOEXCEPT;

/* The engine's own tokenizer, valid while the engine is. NULL if engine is NULL. */
KIMI_API const kimi_tokenizer *kimi_engine_tokenizer(const kimi_engine *engine) KIMI_NOEXCEPT;

/* Encodes len bytes of text into at most cap tokens and writes their number to *n. No BOS or EOS is
 * added. flags: KIMI_SPECIALS or 0. Errors: KIMI_INVALID_ARGUMENT where the text is not UTF-8 (the
 * text gives the byte offset), KIMI_TOO_LONG where cap is too small. Any thread. */
KIMI_API kimi_status kimi_tokenize(const kimi_tokenizer *tokenizer, const char *text, size_t len,
                                   uint32_t flags, int32_t *tokens, size_t cap, size_t *n,
                                   kimi_error *error) KIMI_NOEXCEPT;

/* Writes the exact bytes of n tokens, special names included, and their number to *len. The bytes
 * of a token sequence cut at an arbitrary place need not be valid UTF-8. No NUL is added. Errors:
 * KIMI_INVALID_ARGUMENT where a token is not in the vocabulary, KIMI_TOO_LONG. Any thread. */
KIMI_API kimi_status kimi_detokenize(const kimi_tokenizer *tokenizer, const int32_t *tokens,
                                     size_t n, char *text, size_t cap, size_t *len,
                                     kimi_error *error) KIMI_NOEXCEPT;

/* Renders a conversation to the exact text of K2.6's chat template. json is one object:
 *   messages               array of {role, content, name, tool_calls, tool_call_id,
 * reasoning_content or reasoning}, OpenAI style; content is a string, null, or an array of parts
 *   tools                  array of tool declarations
 *   thinking               bool, default true; enable_thinking is an alias
 *   preserve_thinking      bool, default false: keep the reasoning of finished turns
 *   add_generation_prompt  bool, default true
 * Errors: KIMI_INVALID_ARGUMENT (the text names the field), KIMI_UNSUPPORTED where the tokenizer is
 * not one of K2.5/K2.6, KIMI_TOO_LONG. Any thread. */
KIMI_API kimi_status kimi_chat_render(const kimi_tokenizer *tokenizer, const char *json,
                                      size_t json_len, char *text, size_t cap, size_t *len,
                                      kimi_error *error) KIMI_NOEXCEPT;

/* ---- Sessions ---- */

/* A session is one growing sequence of tokens: prompts that are appended and replies that are
 * generated. It keeps the engine alive. options may be NULL for the defaults. */
KIMI_API kimi_status kimi_session_create(kimi_engine *engine, const kimi_session_options *options,
                                         kimi_session **out, kimi_error *error) KIMI_NOEXCEPT;

/* Changes the options from the next reply on. */
KIMI_API kimi_status kimi_session_set_options(kimi_session *session,
                                              const kimi_session_options *options,
                                              kimi_error *error) KIMI_NOEXCEPT;

/* Constrains the replies from the next one on: tokens that would leave what text describes are
 * never chosen, whatever is drafted. kind:
 *
 *   KIMI_CONSTRAINT_JSON_SCHEMA  text is a JSON schema, the reply one JSON value that satisfies it,
 *       on one line, with at most one space behind , and : and none elsewhere. Supported, of draft
 *       2020-12: true, false; type; enum, const; properties, required, additionalProperties (false
 *       if it is missing beside properties); items, prefixItems, minItems, maxItems; minLength,
 *       maxLength (in characters); pattern; minimum, maximum, exclusiveMinimum, exclusiveMaximum
 *       (such numbers have no exponent); anyOf; oneOf, read as anyOf; allOf of one schema; $ref
 *       within the document, $defs. enum, const, anyOf, oneOf, allOf and $ref stand alone, except
 *       that type may limit the first two. Annotations (title, description, default, format, ...)
 *       are ignored. Properties come in any order, but in the schema's where an object has more
 *       than 32 or is one of several alternatives; those that it does not name may come
 *       twice. At most 64 brackets and quotes are open at once. {} is any JSON.
 *   KIMI_CONSTRAINT_REGEX  text is an expression that the whole reply matches, in ECMAScript's
 *       syntax without \b, \p, back references and look-around; \d \w \s are ASCII.
 *   KIMI_CONSTRAINT_TOOLS  text is an array of tools as in a chat request. Calls name one of its
 *       functions, and their arguments satisfy its parameters, a schema as above; what is around
 *       the calls is free.
 *   KIMI_CONSTRAINT_NONE   text is ignored: replies are free again, as at first.
 *
 * Where the prompt ends inside the reasoning (<think>), a schema or expression holds behind
 * </think>, and until then no other special token is chosen. Special tokens never stand in a
 * constrained text, and a stop token is chosen only where the text is complete. A reply that can
 * not go on, such as with KIMI_IGNORE_STOP behind that stop token, ends with
 * KIMI_FINISH_CONSTRAINT; one that reaches max_tokens may be incomplete. Forks and saved sessions
 * keep the constraint and its place.
 *
 * Compiling takes from below a millisecond to some hundred; the engine keeps the last 16 results
 * for all its sessions. Errors: KIMI_INVALID_ARGUMENT for text that is malformed or allows nothing,
 * KIMI_UNSUPPORTED for what is not in the list above (the message names the keyword and its path),
 * KIMI_TOO_LONG for what is too complex; the constraint is then as before. */
KIMI_API kimi_status kimi_session_set_constraint(kimi_session *session, uint32_t kind,
                                                 const char *text, size_t len,
                                                 kimi_error *error) KIMI_NOEXCEPT;

/* Sets the biases of the replies from the next one on; n = 0 for none. They are added to the
 * logits, of one token together, before temperature and the other options apply. Errors:
 * KIMI_INVALID_ARGUMENT for a token outside the vocabulary or a bias outside -100..100. */
KIMI_API kimi_status kimi_session_set_logit_bias(kimi_session *session,
                                                 const kimi_logit_bias *biases, size_t n,
                                                 kimi_error *error) KIMI_NOEXCEPT;

/* Sets the strings, at most KIMI_MAX_STOP_STRINGS of 1 to KIMI_MAX_STOP_BYTES bytes, that end the
 * replies from the next one on with KIMI_FINISH_STOP_STRING; n = 0 for none. The reply's text, its
 * reasoning included, ends before the first of them, however tokens cut it; text that may still
 * begin one is held back meanwhile. The tokens include those of the string. Errors:
 * KIMI_INVALID_ARGUMENT. */
KIMI_API kimi_status kimi_session_set_stop_strings(kimi_session *session,
                                                   const char *const *strings, size_t n,
                                                   kimi_error *error) KIMI_NOEXCEPT;

/* Takes another hold on the session, for a thread that may cancel it; returns its argument. Each
 * holder destroys once. Any thread that has a hold. */
KIMI_API kimi_session *kimi_session_retain(kimi_session *session) KIMI_NOEXCEPT;
KIMI_API void kimi_session_destroy(kimi_session *session) KIMI_NOEXCEPT;

/* Appends n prompt tokens and starts a new reply. Nothing is computed yet. An append while a reply
 * is in progress ends that reply where it stands. Errors: KIMI_INVALID_ARGUMENT for a token outside
 * the vocabulary (the text gives its index), KIMI_TOO_LONG over the context limit; the session is
 * then unchanged. */
KIMI_API kimi_status kimi_session_append(kimi_session *session, const int32_t *tokens, size_t n,
                                         kimi_error *error) KIMI_NOEXCEPT;

/* Appends a conversation: json, as for kimi_chat_render, holds the whole of it, earlier turns
 * included. The session keeps the longest common prefix of tokens that it has already processed and
 * drops the rest, so the conversation may also have been edited. Tool call ids are rewritten to
 * functions.NAME:INDEX. Text inside messages never becomes a special token. Errors: as
 * kimi_chat_render and kimi_session_append; image parts are KIMI_UNSUPPORTED. */
KIMI_API kimi_status kimi_session_append_chat(kimi_session *session, const char *json, size_t len,
                                              kimi_error *error) KIMI_NOEXCEPT;

/* Does one bounded piece of work: a chunk of the prompt, or one decode step. Steps that several
 * threads ask for at the same time, each on its own session of the engine, are computed together;
 * a session's tokens do not depend on that. Beside sessions that decode, a chunk is short or even
 * empty, so that their steps become longer by half on average and not more. The step that ends the
 * prompt commits exactly one token. Stop, length, cancel and deadline are KIMI_OK with a
 * finish_reason, the last two at the latest with the step that is being computed; an
 * error is returned, repeated in out->status, and ends the reply with KIMI_FINISH_ERROR. KIMI_BUSY
 * (no KV pages left) leaves the reply as it was: the step may be repeated. After the end, a step
 * repeats the finished state with no tokens until something is appended. */
KIMI_API kimi_status kimi_decode_step(kimi_session *session, kimi_step *out,
                                      kimi_error *error) KIMI_NOEXCEPT;

/* One step for each of n sessions of one engine, computed together. out is an array of n elements
 * of out[0].struct_size bytes each; every element has its own status, and the function returns the
 * first that is not KIMI_OK, with its text. Duplicates and sessions of different engines are
 * KIMI_INVALID_ARGUMENT. */
KIMI_API kimi_status kimi_decode_batch(kimi_session *const *sessions, size_t n, kimi_step *out,
                                       kimi_error *error) KIMI_NOEXCEPT;

/* ---- Events ---- */

/* Takes the next event of the reply, after running steps, as kimi_decode_step does, until there is
 * one. Events are the reply without the model's markers, in its order: pieces of reasoning and of
 * content; for each tool call its begin, pieces of its arguments, and all of it when it is complete
 * (one that the end of the reply cuts never is); and last, once, KIMI_EVENT_FINISHED, however the
 * reply ended. Behind it, and where no reply was asked for, there is KIMI_EVENT_NONE.
 *
 *     while (kimi_session_next_event(session, 0, &event, &error) == KIMI_OK &&
 *            event.kind != KIMI_EVENT_NONE)
 *         ...
 *
 * The events are those of the whole reply, whoever runs its steps, and joined by kind they do not
 * depend on what is drafted. A program that runs steps itself (kimi_decode_batch,
 * kimi_session_submit, or kimi_decode_step for its numbers) takes the events in between with flags
 * KIMI_NO_STEP, until KIMI_EVENT_NONE says that the steps so far give no more. What is not asked
 * for costs nothing.
 *
 * Reasoning is what stands before </think> where the prompt ends inside <think> or the reply begins
 * with it; a tool call ends it too. Where the model wrote an id that is not functions.NAME:N, it
 * becomes that, and NAME the tool of the last kimi_session_append_chat that it means. Name and
 * arguments are the model's: they may be of no tool and no JSON, unless KIMI_CONSTRAINT_TOOLS
 * holds. A conversation goes on with kimi_session_append_chat: an assistant message with
 * reasoning_content, content and tool_calls, and for each call a message with role tool,
 * tool_call_id and the result as content.
 *
 * Forks and restored sessions go on with the next event. Append and truncate drop those of the
 * reply before. Errors: those of steps. KIMI_BUSY leaves the reply as it was; any other ends it:
 * first come the events of what was held back, then the error, together with KIMI_EVENT_FINISHED in
 * *out. */
KIMI_API kimi_status kimi_session_next_event(kimi_session *session, uint32_t flags, kimi_event *out,
                                             kimi_error *error) KIMI_NOEXCEPT;

/* ---- Steps in the background ----
 *
 * For a program with an event loop: it submits a step, goes on, and collects the step when the
 * session's descriptor becomes readable. A thread of the engine, started by the first submit and
 * ended with the engine, computes the submitted steps of all sessions together with those that
 * other threads wait for.
 *
 * KIMI_BUSY of a collected step leaves the reply as it was: it waits for KV pages that other
 * sessions of the engine have, and keep behind the end of a reply too. A step that is submitted
 * again at once only asks again, and the loop spins; keep the session aside, and submit its step
 * when another session was destroyed or truncated. Where all wait for each other, one of them has
 * to give way. kimi_session_cancel ends a reply that waits, in its next step. */

/* Asks for a step as of kimi_decode_step and returns at once. Until the step is collected, only
 * kimi_session_poll, _wake_fd, _length, _cancel, _retain and _destroy may be called; the length is
 * that before the step, and destroying the last hold waits for a step that is being computed.
 * Errors: KIMI_INVALID_ARGUMENT, KIMI_OUT_OF_MEMORY. */
KIMI_API kimi_status kimi_session_submit(kimi_session *session, kimi_error *error) KIMI_NOEXCEPT;

/* Collects the submitted step: sets *ready to 1 and does what kimi_decode_step does at its end; or,
 * where the step is not done yet, sets *ready to 0 and returns KIMI_OK. Never waits. Errors:
 * KIMI_INVALID_ARGUMENT where no step is submitted; those of the step. */
KIMI_API kimi_status kimi_session_poll(kimi_session *session, kimi_step *out, int32_t *ready,
                                       kimi_error *error) KIMI_NOEXCEPT;

/* A file descriptor for poll, select or epoll, which is readable while a step is done and not
 * collected. It belongs to the session, which closes it: read nothing from it. Every call gives the
 * same one. Errors: KIMI_IO where the process has no more descriptors. Any thread that has a
 * hold. */
KIMI_API kimi_status kimi_session_wake_fd(kimi_session *session, int32_t *fd,
                                          kimi_error *error) KIMI_NOEXCEPT;

/* ---- Sessions as values ---- */

/* Tokens of the session, prompt and reply. 0 for NULL. */
KIMI_API uint64_t kimi_session_length(const kimi_session *session) KIMI_NOEXCEPT;

/* Drops all tokens from n on and ends the reply in progress; the session then waits for an append.
 * Errors: KIMI_INVALID_ARGUMENT where n is more than the session's length. */
KIMI_API kimi_status kimi_session_truncate(kimi_session *session, uint64_t n,
                                           kimi_error *error) KIMI_NOEXCEPT;

/* Makes a new session in the same state, a reply in progress included. Full pages of KV are shared,
 * so this costs next to nothing. options replace the source's, NULL keeps them; in a reply in
 * progress they take effect at once. Errors: KIMI_BUSY where there is no page for the copy of the
 * last one. */
KIMI_API kimi_status kimi_session_fork(kimi_session *source, const kimi_session_options *options,
                                       kimi_session **out, kimi_error *error) KIMI_NOEXCEPT;

/* Flag of the restore functions: where the saved KV cannot be used (it is damaged, or was made with
 * another KV type, drafter or numeric option), it is computed again by the next steps. The tokens
 * must always be intact and of the same checkpoint. */
enum { KIMI_RECOMPUTE = 1 };

/* Writes tokens, options, reply and KV to a file, which appears complete or not at all. Statistics
 * are not saved. Errors: KIMI_IO, KIMI_NOT_FOUND, KIMI_OUT_OF_MEMORY. */
KIMI_API kimi_status kimi_session_save(kimi_session *session, const char *path,
                                       kimi_error *error) KIMI_NOEXCEPT;
/* The same into a buffer of cap bytes; writes the number of bytes to *size. */
KIMI_API kimi_status kimi_session_save_buffer(kimi_session *session, void *buffer, size_t cap,
                                              size_t *size, kimi_error *error) KIMI_NOEXCEPT;

/* Makes a session from what was saved; it goes on as if nothing had happened. flags: KIMI_RECOMPUTE
 * or 0. Errors: KIMI_CORRUPT for any damage, KIMI_VERSION_MISMATCH where another checkpoint,
 * drafter, KV type, numeric option or version of the format made it, KIMI_BUSY, KIMI_TOO_LONG,
 * KIMI_NOT_FOUND, KIMI_IO. */
KIMI_API kimi_status kimi_session_restore(kimi_engine *engine, const char *path, uint32_t flags,
                                          kimi_session **out, kimi_error *error) KIMI_NOEXCEPT;
KIMI_API kimi_status kimi_session_restore_buffer(kimi_engine *engine, const void *buffer,
                                                 size_t size, uint32_t flags, kimi_session **out,
                                                 kimi_error *error) KIMI_NOEXCEPT;

/* ---- Statistics ---- */

/* Writes the engine's statistics. Any thread; waits for a running step. */
KIMI_API kimi_status kimi_engine_stats(kimi_engine *engine, kimi_engine_statistics *out,
                                       kimi_error *error) KIMI_NOEXCEPT;

/* Writes what every device did in the last 4096 passes to a file, as a trace in Chrome's JSON
 * format, which Perfetto (ui.perfetto.dev), chrome://tracing and kimi-heatmap show. The file
 * appears complete or not at all, and takes some 4 MB per device at most.
 *
 * Every device ("rank N") is a process with two threads. On "compute" a pass is an event "prefill",
 * or "decode" where sessions decoded in it, with these arguments: prompt_rows, decode_rows;
 * experts_hit, the experts whose weights were read, summed over the layers; weight_bytes and
 * kv_bytes, what had to be read. Below it lie the sums of its parts, in this order and not as they
 * alternated: "attention" (over the KV), "experts" (the routed ones), "other". The rest of the pass
 * is "collectives" on the thread "link", the time that the device waited for others, with
 * sent_bytes, received_bytes and, where the deployment names link_gb_per_s, link_share: the larger
 * of the two over what the link carries in the time of the pass.
 *
 * Of GPUs, where the driver's library libnvidia-ml.so.1 is found and tells, every device also has
 * counters, read at the end of a pass and at most every 100 ms: "busy (%)", of the time in which
 * kernels ran on the "gpu" and in which its "memory" was used, in a period of up to a second that
 * the driver chooses; and "PCIe (bytes/s)", "sent" and "received" since the reading before, by all
 * that uses the GPU.
 *
 * A pass that failed, the engine's last, is not among them. Recording is always on; its cost is
 * far below a percent of a pass. Errors: KIMI_IO, KIMI_NOT_FOUND, KIMI_OUT_OF_MEMORY. Any thread;
 * waits for a running step. */
KIMI_API kimi_status kimi_engine_save_trace(kimi_engine *engine, const char *path,
                                            kimi_error *error) KIMI_NOEXCEPT;

/* Moves KV pages until every sequence is contiguous. The library does so by itself, a little in
 * every step; this does all of it at once. Any thread; waits for a running step. */
KIMI_API kimi_status kimi_engine_defragment(kimi_engine *engine, kimi_error *error) KIMI_NOEXCEPT;

/* Writes the session's statistics. */
KIMI_API kimi_status kimi_session_stats(kimi_session *session, kimi_session_statistics *out,
                                        kimi_error *error) KIMI_NOEXCEPT;

/* Ends the reply in progress, with KIMI_FINISH_CANCELLED, in the step that is being computed or, if
 * none is, in the next one. Does nothing when no
 * reply is in progress; cleared by append. Any thread that has a hold, and any signal handler: one
 * atomic store. */
KIMI_API void kimi_session_cancel(kimi_session *session) KIMI_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
