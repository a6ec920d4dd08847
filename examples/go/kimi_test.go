package kimi

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	chat  = `{"messages": [{"role": "user", "content": "What is DFlash?"}], "thinking": false}`
	story = `{"messages": [{"role": "user", "content": "Tell me a story about Mia and a rope."}]}`
)

func deployment() string { return os.Getenv("KIMI_TEST_DEPLOYMENT") }

// The value of a call that must not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(t *testing.T, ok bool, format string, values ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, values...)
	}
}

func open(t *testing.T) *Engine {
	engine := must(Open(deployment()))
	t.Cleanup(engine.Close)
	return engine
}

func greedy() Options {
	options := DefaultOptions()
	options.Temperature = 0
	return options
}

func start(t *testing.T, engine *Engine, options Options, json string) *Session {
	session := must(engine.NewSession(options))
	t.Cleanup(session.Close)
	check(t, session.AppendChat([]byte(json)) == nil, "append")
	return session
}

func rest(t *testing.T, session *Session) string {
	t.Helper()
	var text strings.Builder
	reply := session.Reply(context.Background())
	for step := range reply.Steps {
		text.WriteString(step.Text)
	}
	must(reply.Wait())
	return text.String()
}

func TestBackground(t *testing.T) {
	engine := open(t)
	options := greedy()
	options.Logprobs = 2
	session := start(t, engine, options, chat)
	fd := must(session.WakeFD())
	check(t, fd >= 0 && must(session.WakeFD()) == fd, "descriptor %d", fd)
	_, _, err := session.Poll()
	check(t, Is(err, InvalidArgument), "%v", err)
	var text string
	for finish := FinishNone; finish == FinishNone; {
		must(0, session.Submit())
		_, err := session.Step()
		check(t, Is(err, InvalidArgument), "%v", err)
		step, ready, err := session.Poll()
		for !ready && err == nil {
			runtime.Gosched()
			step, ready, err = session.Poll()
		}
		must(0, err)
		check(t, len(step.Logprobs) == 3*len(step.Tokens), "%+v", step)
		for i, token := range step.Tokens {
			row := step.Logprobs[3*i : 3*i+3]
			check(t, row[0].Token == token && row[0] == row[1] && row[1].Logprob >= row[2].Logprob, "%v", row)
		}
		text += step.Text
		finish = step.Finish
	}
	check(t, text == rest(t, start(t, engine, greedy(), chat)), "%q", text)
	statistics := must(session.Statistics())
	check(t, statistics.Replies == 1 && statistics.FirstToken <= statistics.Reply, "%+v", statistics)

	options.DeadlineMS = 1
	options.IgnoreStop = true
	reply := start(t, engine, options, story).Reply(context.Background())
	for range reply.Steps {
	}
	finish := must(reply.Wait())
	check(t, finish == FinishDeadline, "%v", finish)
}

func TestReply(t *testing.T) {
	engine := must(Open(deployment()))
	session := start(t, engine, greedy(), chat)
	engine.Close() // the session keeps it
	reply := session.Reply(context.Background())
	var tokens []int32
	var text string
	var last Step
	for last = range reply.Steps {
		tokens = append(tokens, last.Tokens...)
		text += last.Text
	}
	finish, err := reply.Wait()
	check(t, finish == FinishStop && err == nil, "%v, %v", finish, err)
	check(t, last.Phase == Finished && last.PromptDone == last.PromptTotal, "%+v", last)
	check(t, strings.HasPrefix(text, "DFlash is a block diffusion drafter."), "%q", text)
	tokenizer := must(OpenTokenizer(filepath.Dir(deployment())))
	defer tokenizer.Close()
	bytes := must(tokenizer.Detokenize(tokens))
	check(t, string(bytes) == text+"<|im_end|>", "%q", bytes)
}

func TestErrors(t *testing.T) {
	_, err := Open("/nowhere/deployment.json")
	check(t, Is(err, NotFound) && strings.Contains(err.Error(), "/nowhere/deployment.json"), "%v", err)
	engine := open(t)
	session := must(engine.NewSession(greedy()))
	err = session.Append([]int32{1, 2, 99999})
	check(t, Is(err, InvalidArgument) && strings.Contains(err.Error(), "99999"), "%v", err)
	check(t, InvalidArgument.String() == "KIMI_INVALID_ARGUMENT", "%v", InvalidArgument)
	_, err = session.Fork(&Options{Temperature: float32(math.NaN())})
	check(t, Is(err, InvalidArgument) && strings.Contains(err.Error(), "temperature"), "%v", err)
	session.Close()
	session.Close()
	_, err = session.Step()
	check(t, errors.Is(err, ErrClosed), "%v", err)
	_, err = session.Reply(context.Background()).Wait()
	check(t, errors.Is(err, ErrClosed), "%v", err)
	engine.Close()
	_, err = engine.NewSession(greedy())
	check(t, errors.Is(err, ErrClosed), "%v", err)
	_, err = engine.Tokenizer().Tokenize("a", false)
	check(t, errors.Is(err, ErrClosed), "%v", err)
}

func TestProgress(t *testing.T) {
	calls := 0
	_, err := OpenWith(deployment(), OpenOptions{Progress: func(done, total uint64) bool {
		calls++
		return done > total
	}})
	check(t, Is(err, Cancelled) && calls == 1, "%v after %d calls", err, calls)
	defer func() { check(t, recover() == "enough", "the panic is lost") }()
	OpenWith(deployment(), OpenOptions{Progress: func(done, total uint64) bool { panic("enough") }})
}

func TestLog(t *testing.T) {
	var lines []string
	told := func(level Level, line string) {
		if level != LogInfo {
			t.Errorf("level %d: %s", level, line)
		}
		lines = append(lines, line)
		panic("of a log, ends with it")
	}
	engine := must(OpenWith(deployment(), OpenOptions{Log: told}))
	n := len(lines)
	check(t, n > 0 && strings.Contains(strings.Join(lines, "\n"), "nano-k2"), "%q", lines)
	session := start(t, engine, greedy(), chat)
	fork := must(session.Fork(nil))
	holders := func() int32 { return engine.log.holders.Load() }
	check(t, holders() == 3, "%d holders", holders())
	engine.Close()
	engine.Close()
	session.Close()
	check(t, holders() == 1, "%d holders", holders())
	check(t, strings.HasPrefix(rest(t, fork), "DFlash is a block diffusion drafter."), "reply")
	check(t, len(lines) == n && holders() == 1, "%q, %d holders", lines, holders())
	fork.Close()
	check(t, holders() == 0, "%d holders", holders())
}

func TestCancel(t *testing.T) {
	options := greedy()
	options.IgnoreStop = true
	options.DraftBudget = 0
	session := start(t, open(t), options, story)
	ctx, cancel := context.WithCancel(context.Background())
	reply := session.Reply(ctx)
	<-reply.Steps
	<-reply.Steps
	cancel() // and nobody receives any more
	finish, err := reply.Wait()
	check(t, finish == FinishCancelled && errors.Is(err, context.Canceled), "%v, %v", finish, err)

	// What is appended next is not cancelled.
	check(t, session.SetOptions(greedy()) == nil, "set options")
	check(t, session.AppendChat([]byte(chat)) == nil, "append")
	text := rest(t, session)
	check(t, strings.HasPrefix(text, "DFlash is a block diffusion drafter."), "%q", text)
}

const tools = `[{"type": "function", "function": {"name": "search_files",
	"description": "Find files whose name contains a word", "parameters": {"type": "object",
	"properties": {"word": {"type": "string"}}, "required": ["word"]}}}]`

func TestEvents(t *testing.T) {
	ask := func(messages string) string {
		return `{"messages": [` + messages + `], "tools": ` + tools + `}`
	}
	question := `{"role": "user", "content": "Find files about lantern."}`
	session := start(t, open(t), greedy(), ask(question))
	var events []Event
	reply := session.Events(context.Background())
	for event := range reply.Events {
		events = append(events, event)
	}
	finish, err := reply.Wait()
	check(t, finish == FinishToolCalls && err == nil, "%v, %v", finish, err)
	check(t, len(events) > 2 && events[0].Kind == EventReasoning, "%+v", events)
	call, end := events[len(events)-2], events[len(events)-1]
	check(t, call.Kind == EventCall && call.Name == "search_files" && call.Call == 0 &&
		call.Text == `{"word": "lantern"}`, "%+v", call)
	check(t, end.Kind == EventFinished && end.Finish == finish && end.Calls == 1, "%+v", end)
	check(t, must(session.NextEvent()).Kind == NoEvent, "an event behind the end")

	check(t, session.AppendChat([]byte(ask(question+`, {"role": "assistant", "content": "",
		"tool_calls": [{"id": "`+call.ID+`", "type": "function", "function": {"name": "search_files",
		"arguments": "{\"word\": \"lantern\"}"}}]}, {"role": "tool", "tool_call_id": "`+call.ID+`",
		"content": "[\"lantern.txt\"]"}`))) == nil, "append")
	answer := ""
	for event := range session.Events(context.Background()).Events {
		if event.Kind == EventContent {
			answer += event.Text
		}
	}
	check(t, strings.HasPrefix(answer, "I found "), "%q", answer)
}

func TestWaitingEvents(t *testing.T) {
	engine := open(t)
	session := start(t, engine, greedy(), chat)
	check(t, must(session.WaitingEvent()).Kind == NoEvent, "an event before the first step")
	text := ""
	for event := (Event{}); event.Kind != EventFinished; {
		must(session.Step())
		for event = must(session.WaitingEvent()); event.Kind == EventContent; event = must(session.WaitingEvent()) {
			text += event.Text
		}
	}
	check(t, text == rest(t, start(t, engine, greedy(), chat)), "%q", text)
}

func TestCancelEvents(t *testing.T) {
	options := greedy()
	options.IgnoreStop = true
	session := start(t, open(t), options, story)
	ctx, cancel := context.WithCancel(context.Background())
	reply := session.Events(ctx)
	<-reply.Events
	cancel() // and nobody receives any more
	finish, err := reply.Wait()
	check(t, finish == FinishCancelled && errors.Is(err, context.Canceled), "%v, %v", finish, err)
	session.Close()
	_, err = session.Events(context.Background()).Wait()
	check(t, errors.Is(err, ErrClosed), "%v", err)
}

func TestCloseDuringReply(t *testing.T) {
	options := greedy()
	options.IgnoreStop = true
	session := start(t, open(t), options, story)
	reply := session.Reply(context.Background())
	<-reply.Steps
	session.Close()
	for range reply.Steps {
	}
	_, err := reply.Wait()
	check(t, errors.Is(err, ErrClosed), "%v", err)
}

func TestFinaliser(t *testing.T) {
	engine := open(t)
	func() {
		session := must(engine.NewSession(greedy()))
		check(t, session.AppendChat([]byte(chat)) == nil, "append")
		must(session.Step())
	}()
	for i := 0; i < 100 && must(engine.Statistics()).Sessions > 0; i++ {
		runtime.GC()
		runtime.Gosched()
	}
	check(t, must(engine.Statistics()).Sessions == 0, "a forgotten session was not closed")
}

func TestText(t *testing.T) {
	tokenizer := open(t).Tokenizer()
	tokens := must(tokenizer.Tokenize("Grüße<|im_end|>", true))
	plain := must(tokenizer.Tokenize("Grüße<|im_end|>", false))
	check(t, len(tokens) < len(plain), "%v, %v", tokens, plain)
	check(t, string(must(tokenizer.Detokenize(plain))) == "Grüße<|im_end|>", "%v", plain)
	check(t, len(must(tokenizer.Tokenize("", false))) == 0, "tokens of nothing")
	text := must(tokenizer.RenderChat([]byte(chat)))
	check(t, strings.Contains(text, "<|im_user|>user<|im_middle|>What is DFlash?<|im_end|>"), "%q", text)
}

func TestValues(t *testing.T) {
	engine := open(t)
	options := DefaultOptions()
	options.Seed = 11
	whole := rest(t, start(t, engine, options, story))
	session := start(t, engine, options, story)
	begin := ""
	for i := 0; i < 6; i++ {
		begin += must(session.Step()).Text
	}
	length := must(session.Length())
	fork := must(session.Fork(nil))
	saved := must(session.Bytes())
	file := filepath.Join(t.TempDir(), "session")
	check(t, session.Save(file) == nil, "save")
	for _, copy := range []*Session{
		fork, must(engine.RestoreBytes(saved, false)), must(engine.Restore(file, false))} {
		text := begin + rest(t, copy)
		check(t, text == whole, "%q, not %q", text, whole)
		copy.Close()
	}
	check(t, session.Truncate(length-1) == nil && must(session.Length()) == length-1, "truncate")
	check(t, Is(session.Truncate(length), InvalidArgument), "truncate to more")
	check(t, must(session.Statistics()).Steps > 0, "statistics")
}

func TestBatch(t *testing.T) {
	engine := open(t)
	sessions := []*Session{start(t, engine, greedy(), chat), start(t, engine, greedy(), story)}
	var texts [2]string
	for finished := 0; finished < 2; {
		finished = 0
		for i, result := range must(StepBatch(sessions)) {
			check(t, result.Err == nil, "%v", result.Err)
			texts[i] += result.Step.Text
			if result.Step.Phase == Finished {
				finished++
			}
		}
	}
	check(t, texts[0] == rest(t, start(t, engine, greedy(), chat)), "%q", texts[0])
	check(t, texts[1] == rest(t, start(t, engine, greedy(), story)), "%q", texts[1])
	_, err := StepBatch([]*Session{sessions[0], sessions[0]})
	check(t, Is(err, InvalidArgument), "%v", err)
	_, err = StepBatch([]*Session{sessions[0], start(t, open(t), greedy(), chat)})
	check(t, Is(err, InvalidArgument), "%v", err)
}

func TestConstraints(t *testing.T) {
	engine := open(t)
	session := must(engine.NewSession(greedy()))
	defer session.Close()
	reply := func() string {
		check(t, session.AppendChat([]byte(chat)) == nil, "append")
		return rest(t, session)
	}
	check(t, session.SetConstraint(ConstrainRegex, "(yes|no)!") == nil, "constraint")
	text := reply()
	check(t, text == "yes!" || text == "no!", "%q", text)
	check(t, Is(session.SetConstraint(ConstrainJSON, "{"), InvalidArgument), "half a schema")

	check(t, session.SetConstraint(NoConstraint, "") == nil, "no constraint")
	check(t, session.SetStopStrings("block diffusion", "never") == nil, "stop strings")
	text = reply()
	check(t, text == "DFlash is a ", "%q", text)

	check(t, session.SetStopStrings() == nil, "no stop strings")
	first := must(engine.Tokenizer().Tokenize("DFlash", false))[0]
	check(t, session.SetLogitBias(map[int32]float32{first: -100}) == nil, "bias")
	text = reply()
	check(t, !strings.HasPrefix(text, "DFlash"), "%q", text)
}

func TestLibrary(t *testing.T) {
	check(t, strings.Count(Version(), ".") == 2, "%q", Version())
	check(t, HasFeature("cpu") && !HasFeature("none of this name"), "features")
	estimate := must(EstimateDeployment(deployment(), 0))
	check(t, estimate.Devices >= 1 && estimate.KVTokenBytes > 0, "%+v", estimate)
	engine := open(t)
	rest(t, start(t, engine, greedy(), chat))
	statistics := must(engine.Statistics())
	check(t, statistics.Pages >= statistics.PagesFree && statistics.Passes > 0, "%+v", statistics)
	check(t, engine.Defragment() == nil, "defragment")
	file := filepath.Join(t.TempDir(), "trace")
	check(t, engine.SaveTrace(file) == nil, "trace")
	check(t, strings.Contains(string(must(os.ReadFile(file))), "rank 0"), "no rank in the trace")
}
