package kimi

// #include <kimi/kimi.h>
// #include <stdlib.h>
import "C"

import "unsafe"

// EngineStatistics is the KV memory of an engine; and what it computed; see
// kimi_engine_statistics.
type EngineStatistics struct {
	Pages, PagesFree, PagesCached, PagesEvictable, PageBytes uint64
	Sessions, SessionPages, SessionRuns                      uint64
	PrefixHits, PrefixTokens, PagesEvicted, PagesMoved       uint64
	MoveSeconds                                              float64
	Passes, Steps, PromptRows, DecodeRows                    uint64
	Committed, Drafted, Accepted, Ranks, MemoryBytes         uint64
}

// Statistics returns the engine's statistics.
func (e *Engine) Statistics() (EngineStatistics, error) {
	var raw C.kimi_engine_statistics
	C.kimi_engine_statistics_init_sized(&raw, C.sizeof_kimi_engine_statistics)
	err := e.call(func(engine *C.kimi_engine, err *C.kimi_error) C.kimi_status {
		return C.kimi_engine_stats(engine, &raw, err)
	})
	return EngineStatistics{
		Pages: uint64(raw.pages), PagesFree: uint64(raw.pages_free),
		PagesCached: uint64(raw.pages_cached), PagesEvictable: uint64(raw.pages_evictable),
		PageBytes: uint64(raw.page_bytes), Sessions: uint64(raw.sessions),
		SessionPages: uint64(raw.session_pages), SessionRuns: uint64(raw.session_runs),
		PrefixHits: uint64(raw.prefix_hits), PrefixTokens: uint64(raw.prefix_tokens),
		PagesEvicted: uint64(raw.pages_evicted), PagesMoved: uint64(raw.pages_moved),
		MoveSeconds: float64(raw.move_seconds), Passes: uint64(raw.passes),
		Steps: uint64(raw.steps), PromptRows: uint64(raw.prompt_rows),
		DecodeRows: uint64(raw.decode_rows), Committed: uint64(raw.committed),
		Drafted: uint64(raw.drafted), Accepted: uint64(raw.accepted),
		Ranks: uint64(raw.ranks), MemoryBytes: uint64(raw.memory_bytes),
	}, err
}

// SessionStatistics is what a session's steps did; see kimi_session_statistics. Times are in
// seconds.
type SessionStatistics struct {
	Steps, Committed, Drafted, Accepted  uint64
	OfferedAt, AcceptedAt                [C.KIMI_MAX_DRAFT_DEPTH]uint64
	Draft, Tree, Verify, Accept, Compact float64

	Replies, PromptTokens, PromptReused, ReplyTokens uint64
	Prefill, Decode, FirstToken, Reply               float64
}

// Statistics returns the session's statistics.
func (s *Session) Statistics() (SessionStatistics, error) {
	var raw C.kimi_session_statistics
	C.kimi_session_statistics_init_sized(&raw, C.sizeof_kimi_session_statistics)
	err := s.call(func(session *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_stats(session, &raw, err)
	})
	out := SessionStatistics{
		Steps: uint64(raw.steps), Committed: uint64(raw.committed),
		Drafted: uint64(raw.drafted), Accepted: uint64(raw.accepted),
		Draft: float64(raw.draft_seconds), Tree: float64(raw.tree_seconds),
		Verify: float64(raw.verify_seconds), Accept: float64(raw.accept_seconds),
		Compact: float64(raw.compact_seconds),
		Replies: uint64(raw.replies), PromptTokens: uint64(raw.prompt_tokens),
		PromptReused: uint64(raw.prompt_reused), ReplyTokens: uint64(raw.reply_tokens),
		Prefill: float64(raw.prefill_seconds), Decode: float64(raw.decode_seconds),
		FirstToken: float64(raw.first_token_seconds), Reply: float64(raw.reply_seconds),
	}
	for i := range out.OfferedAt {
		out.OfferedAt[i] = uint64(raw.offered_at[i])
		out.AcceptedAt[i] = uint64(raw.accepted_at[i])
	}
	return out, err
}

// Estimate is what each device of a deployment needs; see kimi_estimate.
type Estimate struct {
	MemoryBytes, Devices, WeightsBytes, WorkspaceBytes, KVBytes, KVTokenBytes, CapacityTokens uint64
}

// EstimateDeployment tells what a deployment would need and what fits, before it is loaded.
// memoryBytes is that of one device, 0 asks the machine.
func EstimateDeployment(deployment string, memoryBytes uint64) (Estimate, error) {
	path := C.CString(deployment)
	defer C.free(unsafe.Pointer(path))
	var raw C.kimi_estimate
	C.kimi_estimate_init_sized(&raw, C.sizeof_kimi_estimate)
	raw.memory_bytes = C.uint64_t(memoryBytes)
	err := call(func(err *C.kimi_error) C.kimi_status {
		return C.kimi_deployment_estimate(path, &raw, err)
	})
	return Estimate{
		MemoryBytes: uint64(raw.memory_bytes), Devices: uint64(raw.devices),
		WeightsBytes: uint64(raw.weights_bytes), WorkspaceBytes: uint64(raw.workspace_bytes),
		KVBytes: uint64(raw.kv_bytes), KVTokenBytes: uint64(raw.kv_token_bytes),
		CapacityTokens: uint64(raw.capacity_tokens),
	}, err
}
