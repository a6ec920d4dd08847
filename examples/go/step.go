package kimi

// #include <kimi/kimi.h>
import "C"

import "unsafe"

// Phase tells what comes next.
type Phase uint32

const (
	Prefill  Phase = C.KIMI_PHASE_PREFILL
	Decode   Phase = C.KIMI_PHASE_DECODE
	Finished Phase = C.KIMI_PHASE_FINISHED
)

// Finish tells why a reply ended.
type Finish uint32

const (
	FinishNone       Finish = C.KIMI_FINISH_NONE // it goes on
	FinishStop       Finish = C.KIMI_FINISH_STOP
	FinishLength     Finish = C.KIMI_FINISH_LENGTH
	FinishCancelled  Finish = C.KIMI_FINISH_CANCELLED
	FinishDeadline   Finish = C.KIMI_FINISH_DEADLINE
	FinishError      Finish = C.KIMI_FINISH_ERROR
	FinishToolCalls  Finish = C.KIMI_FINISH_TOOL_CALLS
	FinishStopString Finish = C.KIMI_FINISH_STOP_STRING
	FinishConstraint Finish = C.KIMI_FINISH_CONSTRAINT
)

// Logprob is a token and its log probability.
type Logprob struct {
	Token   int32
	Logprob float32
}

// Step is what one step did; see kimi_step.
type Step struct {
	Phase                     Phase
	Finish                    Finish  // set together with the reply's last tokens
	Tokens                    []int32 // committed by this step, including the stop token
	Text                      string  // that became complete, without the stop token
	PromptDone, PromptTotal   uint64  // prompt tokens processed so far, of all
	DraftNodes, DraftAccepted uint32  // tokens drafted and verified in this step; of these, committed

	// Of each token, its own and those of the likeliest tokens, if the options want them.
	Logprobs     []Logprob
	PromptReused uint64 // of PromptTotal: were processed before
}

func rawStep() (raw C.kimi_step) {
	C.kimi_step_init_sized(&raw, C.sizeof_kimi_step)
	return raw
}

// Copies a step, before the session's next call.
func newStep(raw *C.kimi_step) Step {
	return Step{
		Phase:         Phase(raw.phase),
		Finish:        Finish(raw.finish_reason),
		Tokens:        append([]int32(nil), unsafe.Slice((*int32)(raw.tokens), int(raw.n_tokens))...),
		Text:          copyText(raw.text, raw.text_len),
		PromptDone:    uint64(raw.prompt_done),
		PromptTotal:   uint64(raw.prompt_total),
		DraftNodes:    uint32(raw.draft_nodes),
		DraftAccepted: uint32(raw.draft_accepted),
		Logprobs: append([]Logprob(nil),
			unsafe.Slice((*Logprob)(unsafe.Pointer(raw.logprobs)), int(raw.n_logprobs))...),
		PromptReused: uint64(raw.prompt_reused),
	}
}
