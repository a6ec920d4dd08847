package kimi

// #include <kimi/kimi.h>
import "C"

import "unsafe"

// EventKind tells what an event is.
type EventKind uint32

const (
	NoEvent            EventKind = C.KIMI_EVENT_NONE
	EventReasoning     EventKind = C.KIMI_EVENT_REASONING      // the next piece of the reasoning
	EventContent       EventKind = C.KIMI_EVENT_CONTENT        // the next piece of the answer
	EventCallBegin     EventKind = C.KIMI_EVENT_CALL_BEGIN     // a tool call begins
	EventCallArguments EventKind = C.KIMI_EVENT_CALL_ARGUMENTS // the next piece of its arguments
	EventCall          EventKind = C.KIMI_EVENT_CALL           // it is complete; Text is all of its arguments
	EventFinished      EventKind = C.KIMI_EVENT_FINISHED       // the reply is over
)

// Event is a part of a reply; see kimi_session_next_event.
type Event struct {
	Kind EventKind
	Text string

	// Of calls: the place in the reply, from 0, the id, and the function.
	Call     int
	ID, Name string

	// Of EventFinished: why, the tokens before the reply and of it, and its complete tool calls.
	Finish                           Finish
	PromptTokens, ReplyTokens, Calls uint64
}

func copyText(text *C.char, n C.size_t) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(n)))
}

func (s *Session) takeEvent(flags C.uint32_t) (event Event, err error) {
	var raw C.kimi_event
	C.kimi_event_init_sized(&raw, C.sizeof_kimi_event)
	err = s.call(func(session *C.kimi_session, e *C.kimi_error) C.kimi_status {
		status := C.kimi_session_next_event(session, flags, &raw, e)
		event = Event{
			Kind:         EventKind(raw.kind),
			Text:         copyText(raw.text, raw.text_len),
			Call:         int(raw.call),
			ID:           copyText(raw.id, raw.id_len),
			Name:         copyText(raw.name, raw.name_len),
			Finish:       Finish(raw.finish_reason),
			PromptTokens: uint64(raw.prompt_tokens),
			ReplyTokens:  uint64(raw.reply_tokens),
			Calls:        uint64(raw.calls),
		}
		return status
	})
	return event, err
}

// NextEvent takes the reply's next event, after steps where they are needed; NoEvent behind its end.
// An error that ends the reply comes together with EventFinished.
func (s *Session) NextEvent() (Event, error) {
	return s.takeEvent(0)
}

// WaitingEvent does the same without steps: NoEvent where those so far give no event.
func (s *Session) WaitingEvent() (Event, error) {
	return s.takeEvent(C.KIMI_NO_STEP)
}
