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

	newPrompt       bool // the session knew nothing of it
	before          kimi.SessionStatistics
	begin           time.Time
	prompt, elapsed time.Duration // to the first piece of the reply, and to the last
}

// From now on.
func newStats(session *kimi.Session, seed uint64, newPrompt bool) *stats {
	before, _ := session.Statistics()
	return &stats{Seed: seed, newPrompt: newPrompt, before: before, begin: time.Now()}
}

// A piece of the reply has come.
func (s *stats) tick() {
	s.elapsed = time.Since(s.begin)
	if s.prompt == 0 {
		s.prompt = s.elapsed
	}
}

// The reply is over.
func (s *stats) end(session *kimi.Session, promptTokens uint64) {
	length, _ := session.Length()
	after, _ := session.Statistics()
	s.PromptTokens = promptTokens
	s.GeneratedTokens = int(length - promptTokens)
	s.Steps = after.Steps - s.before.Steps
	s.Drafted = after.Drafted - s.before.Drafted
	s.Accepted = after.Accepted - s.before.Accepted
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
	if s.newPrompt {
		s.PrefillRate = rate(float64(s.PromptTokens), s.prompt)
	}
	s.DecodeRate = rate(float64(s.GeneratedTokens-1), s.elapsed-s.prompt)
	s.FirstTokenMS = s.prompt.Seconds() * 1e3
	s.FinishReason = names[finish]
	json.NewEncoder(os.Stderr).Encode(s)
}
