package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"kimi"
)

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func appendPrompt(session *kimi.Session, o *options) error {
	if o.tokens != nil {
		return session.Append(o.tokens)
	}
	var request struct {
		Messages []message `json:"messages"`
		Thinking bool      `json:"thinking"`
	}
	if o.system != nil {
		request.Messages = append(request.Messages, message{"system", *o.system})
	}
	request.Messages = append(request.Messages, message{"user", *o.prompt})
	request.Thinking = !o.instant
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return session.AppendChat(data)
}

// What of a reply is printed.
type output struct {
	ids         bool // token ids instead of text
	inReasoning bool
	last        string
}

func (o *output) print(text string) error {
	if text == "" {
		return nil
	}
	o.last = text
	_, err := os.Stdout.WriteString(text)
	return err
}

// The reasoning ends at </think>, or where the model calls a tool without it.
func (o *output) answer(text string) string {
	const thinkEnd, tools = "</think>", "<|tool_calls_section_begin|>"
	if !o.inReasoning {
		return text
	}
	begin := strings.Index(text, thinkEnd)
	if begin >= 0 {
		begin += len(thinkEnd)
	} else {
		begin = strings.Index(text, tools)
	}
	if begin < 0 {
		return ""
	}
	o.inReasoning = false
	return text[begin:]
}

func (o *output) show(step kimi.Step) error {
	if !o.ids {
		return o.print(o.answer(step.Text))
	}
	for _, token := range step.Tokens {
		id := strconv.Itoa(int(token))
		if o.last != "" {
			id = "," + id
		}
		if err := o.print(id); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) end() error {
	if o.last == "" || strings.HasSuffix(o.last, "\n") {
		return nil
	}
	return o.print("\n")
}

// Prints the reply and returns why it ended.
func reply(ctx context.Context, o *options) (kimi.Finish, error) {
	engine, err := kimi.Open(o.deployment)
	if err != nil {
		return kimi.FinishError, err
	}
	defer engine.Close()
	session, err := engine.NewSession(o.sampling)
	if err != nil {
		return kimi.FinishError, err
	}
	defer session.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stats := newStats(o.sampling.Seed)
	if err := appendPrompt(session, o); err != nil {
		if o.stats {
			stats.print(kimi.FinishError)
		}
		return kimi.FinishError, err
	}
	out := output{ids: o.tokens != nil, inReasoning: !o.instant}
	reply := session.Reply(ctx)
	for step := range reply.Steps {
		if step.Phase == kimi.Prefill {
			continue
		}
		if err := out.show(step); err != nil {
			return kimi.FinishError, err
		}
		stats.count(step)
	}
	finish, err := reply.Wait()
	if err := out.end(); err != nil {
		return kimi.FinishError, err
	}
	if o.stats {
		stats.print(finish)
	}
	return finish, err
}
