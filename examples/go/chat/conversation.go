package main

import (
	"context"
	"encoding/json"
	"os"

	"kimi"
)

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Reasoning  string     `json:"reasoning_content,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// A chat request.
type conversation struct {
	Messages []message       `json:"messages"`
	Tools    json.RawMessage `json:"tools,omitempty"`
	Thinking bool            `json:"thinking"`
}

func (c *conversation) begin(o *options) {
	if o.system != nil {
		c.Messages = append(c.Messages, message{Role: "system", Content: *o.system})
	}
	if o.prompt != nil {
		c.Messages = append(c.Messages, message{Role: "user", Content: *o.prompt})
	}
	c.Thinking = !o.instant
}

// Adds a reply that calls tools, and what they return.
func (c *conversation) addCalls(r *reply) {
	calling := message{Role: "assistant", Content: r.answer, Reasoning: r.reasoning}
	for _, call := range r.calls {
		calling.ToolCalls = append(calling.ToolCalls,
			toolCall{call.ID, "function", function{call.Name, call.Text}})
	}
	c.Messages = append(c.Messages, calling)
	for _, call := range r.calls {
		c.Messages = append(c.Messages,
			message{Role: "tool", Content: runTool(call.Name, call.Text), ToolCallID: call.ID})
	}
}

// Appends the prompt and returns its tokens, those of earlier turns included.
func (c *conversation) append(session *kimi.Session, o *options) (uint64, error) {
	var err error
	if o.tokens != nil {
		err = session.Append(o.tokens)
	} else {
		var data []byte
		if data, err = json.Marshal(c); err == nil {
			err = session.AppendChat(data)
		}
	}
	if err != nil {
		return 0, err
	}
	return session.Length()
}

// Prints reply number i.
func (c *conversation) reply(ctx context.Context, session *kimi.Session, o *options, i uint64) (r reply, err error) {
	r.finish = kimi.FinishError
	sampling := o.sampling
	sampling.Seed += i
	if err := session.SetOptions(sampling); err != nil {
		return r, err
	}
	stats := newStats(session, sampling.Seed, i == 0)
	promptTokens, err := c.append(session, o)
	if err == nil {
		if o.tokens != nil {
			err = r.runIDs(ctx, session, stats)
		} else {
			err = r.run(ctx, session, stats)
		}
		stats.end(session, promptTokens)
	}
	if o.stats {
		stats.print(r.finish)
	}
	return r, err
}

// Opens the session that the options ask for.
func open(o *options, tools []byte) (*kimi.Session, error) {
	engine, err := kimi.Open(o.deployment)
	if err != nil {
		return nil, err
	}
	defer engine.Close() // the session keeps it
	session, err := engine.NewSession(o.sampling)
	if err != nil || tools == nil {
		return session, err
	}
	if err := session.SetConstraint(kimi.ConstrainTools, string(tools)); err != nil {
		session.Close()
		return nil, err
	}
	return session, nil
}

// Prints the replies, until one calls no more tools, and returns why it ended.
func converse(ctx context.Context, o *options) (kimi.Finish, error) {
	var c conversation
	if o.tools != "" {
		tools, err := os.ReadFile(o.tools)
		if err != nil {
			return kimi.FinishError, err
		}
		c.Tools = tools
	}
	session, err := open(o, c.Tools)
	if err != nil {
		return kimi.FinishError, err
	}
	defer session.Close()
	c.begin(o)
	for i := uint64(0); ; i++ {
		r, err := c.reply(ctx, session, o, i)
		if err != nil || c.Tools == nil || len(r.calls) == 0 || r.finish != kimi.FinishToolCalls {
			return r.finish, err
		}
		c.addCalls(&r)
	}
}
