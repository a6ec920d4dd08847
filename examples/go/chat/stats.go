package main

import (
	"encoding/json"
	"os"
	"time"

	"kimi"
)

// What --stats prints.
type stats struct {
	PromptTokens    uint64   `json:"prompt_tokens"`
	GeneratedTokens int      `json:"generated_tokens"`
	PrefillRate     *float64 `json:"prefill_tokens_per_s"`
	DecodeRate      *float64 `json:"decode_tokens_per_s"`
	Steps           uint64   `json:"steps"`
	Drafted         uint64   `json:"drafted"`
	Accepted        uint64   `json:"accepted"`
	FinishReason    string   `json:"finish_reason"`
	Seed            uint64   `json:"seed"`
	FirstTokenMS    float64  `json:"first_token_ms"`

	begin           time.Time
	prompt, elapsed time.Duration // to the first token, and to the last
}

func newStats(seed uint64) *stats {
	return &stats{Seed: seed, begin: time.Now()}
}

func (s *stats) count(step kimi.Step) {
	s.elapsed = time.Since(s.begin)
	s.PromptTokens = step.PromptTotal
	if s.GeneratedTokens == 0 {
		s.prompt = s.elapsed
	} else {
		s.Steps++
	}
	s.GeneratedTokens += len(step.Tokens)
	s.Drafted += uint64(step.DraftNodes)
	s.Accepted += uint64(step.DraftAccepted)
}

// Per second; nil where nothing was measured.
func rate(n float64, time time.Duration) *float64 {
	if n <= 0 || time <= 0 {
		return nil
	}
	n /= time.Seconds()
	return &n
}

var names = map[kimi.Finish]string{
	kimi.FinishStop:       "stop",
	kimi.FinishLength:     "length",
	kimi.FinishCancelled:  "cancelled",
	kimi.FinishDeadline:   "deadline",
	kimi.FinishError:      "error",
	kimi.FinishToolCalls:  "tool_calls",
	kimi.FinishStopString: "stop_string",
	kimi.FinishConstraint: "constraint",
}

func (s *stats) print(finish kimi.Finish) {
	s.PrefillRate = rate(float64(s.PromptTokens), s.prompt)
	s.DecodeRate = rate(float64(s.GeneratedTokens-1), s.elapsed-s.prompt)
	s.FirstTokenMS = s.prompt.Seconds() * 1e3
	s.FinishReason = names[finish]
	json.NewEncoder(os.Stderr).Encode(s)
}
