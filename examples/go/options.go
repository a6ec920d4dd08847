package kimi

// #include <kimi/kimi.h>
import "C"

// Auto is a DraftBudget that is chosen from measured times and acceptance.
const Auto = uint32(C.KIMI_AUTO)

// Options of a session; see kimi_session_options. DefaultOptions has the values to start from.
type Options struct {
	Seed        uint64
	MaxTokens   uint32  // per reply; 0: up to the context limit
	Temperature float32 // 0 is greedy
	TopP, MinP  float32
	TopK        uint32 // 0 is off
	DraftBudget uint32 // drafted tokens per step, 0 to 63, or Auto
	DraftChain  bool   // draft a chain instead of a tree
	IgnoreStop  bool   // stop tokens do not end the reply
	DeadlineMS  uint32 // of a reply, from its append on; 0: none
	Logprobs    uint32 // of how many of the likeliest tokens steps tell the log probability; 0 is off
}

func defaults() (raw C.kimi_session_options) {
	C.kimi_session_options_init_sized(&raw, C.sizeof_kimi_session_options)
	return raw
}

// DefaultOptions returns the library's defaults.
func DefaultOptions() Options {
	raw := defaults()
	return Options{
		Seed:        uint64(raw.seed),
		MaxTokens:   uint32(raw.max_tokens),
		Temperature: float32(raw.temperature),
		TopP:        float32(raw.top_p),
		MinP:        float32(raw.min_p),
		TopK:        uint32(raw.top_k),
		DraftBudget: uint32(raw.draft_budget),
		DraftChain:  raw.draft_mode == C.KIMI_DRAFT_CHAIN,
		IgnoreStop:  raw.flags&C.KIMI_IGNORE_STOP != 0,
		DeadlineMS:  uint32(raw.deadline_ms),
		Logprobs:    uint32(raw.logprobs),
	}
}

func (o *Options) raw() *C.kimi_session_options {
	raw := defaults()
	raw.seed = C.uint64_t(o.Seed)
	raw.max_tokens = C.uint32_t(o.MaxTokens)
	raw.temperature = C.float(o.Temperature)
	raw.top_p = C.float(o.TopP)
	raw.min_p = C.float(o.MinP)
	raw.top_k = C.uint32_t(o.TopK)
	raw.draft_budget = C.uint32_t(o.DraftBudget)
	raw.draft_mode = C.KIMI_DRAFT_TREE
	raw.deadline_ms = C.uint32_t(o.DeadlineMS)
	raw.logprobs = C.uint32_t(o.Logprobs)
	if o.DraftChain {
		raw.draft_mode = C.KIMI_DRAFT_CHAIN
	}
	if o.IgnoreStop {
		raw.flags |= C.KIMI_IGNORE_STOP
	}
	return &raw
}
