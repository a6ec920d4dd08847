package main

import (
	"context"
	"os"
	"strconv"
	"strings"

	"kimi"
)

// What of a reply is printed.
type output struct {
	last string
}

func (o *output) print(text string) error {
	if text == "" {
		return nil
	}
	o.last = text
	_, err := os.Stdout.WriteString(text)
	return err
}

func (o *output) printIDs(tokens []int32) error {
	for _, token := range tokens {
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

// A reply, and the calls in it that are complete.
type reply struct {
	finish            kimi.Finish
	reasoning, answer string
	calls             []kimi.Event
}

// Prints the answer of the reply to what was appended.
func (r *reply) run(ctx context.Context, session *kimi.Session, stats *stats) (err error) {
	var out output
	stream := session.Events(ctx)
	for event := range stream.Events {
		if event.Kind != kimi.EventFinished {
			stats.tick()
		}
		switch event.Kind {
		case kimi.EventReasoning:
			r.reasoning += event.Text
		case kimi.EventContent:
			r.answer += event.Text
			if err := out.print(event.Text); err != nil {
				return err
			}
		case kimi.EventCall:
			r.calls = append(r.calls, event)
		}
	}
	r.finish, err = stream.Wait()
	if printing := out.end(); printing != nil {
		return printing
	}
	return err
}

// Prints the ids of the reply's tokens.
func (r *reply) runIDs(ctx context.Context, session *kimi.Session, stats *stats) (err error) {
	var out output
	stream := session.Reply(ctx)
	for step := range stream.Steps {
		if step.Phase == kimi.Prefill {
			continue
		}
		stats.tick()
		if err := out.printIDs(step.Tokens); err != nil {
			return err
		}
	}
	r.finish, err = stream.Wait()
	if printing := out.end(); printing != nil {
		return printing
	}
	return err
}
