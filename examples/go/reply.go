package kimi

// #include <kimi/kimi.h>
import "C"

import "context"

// Ending is the end of a reply that is on its way.
type Ending struct {
	ended  chan struct{}
	finish Finish
	err    error
}

// Wait waits for the end of the reply, and tells why it ended. The error is ctx's where ctx ended it.
func (e *Ending) Wait() (Finish, error) {
	<-e.ended
	return e.finish, e.err
}

// Reply is a reply on its way, as steps.
type Reply struct {
	// Steps brings the steps and is closed after the last one.
	Steps <-chan Step
	*Ending
}

// Reply generates the reply to what was appended. Receive from Steps until it is closed, or cancel
// ctx, which ends the reply at its next step.
func (s *Session) Reply(ctx context.Context) *Reply {
	steps := make(chan Step)
	return &Reply{steps, generate(ctx, s, steps, func() (*Step, Finish, bool, error) {
		step, err := s.Step()
		if err != nil {
			return nil, step.Finish, true, err
		}
		return &step, step.Finish, step.Phase == Finished, nil
	})}
}

// EventReply is a reply on its way, as events.
type EventReply struct {
	// Events brings the events and is closed after EventFinished.
	Events <-chan Event
	*Ending
}

// Events does the same as Reply, with events. KIMI_BUSY ends it without EventFinished; it may be
// called again.
func (s *Session) Events(ctx context.Context) *EventReply {
	events := make(chan Event)
	return &EventReply{events, generate(ctx, s, events, func() (*Event, Finish, bool, error) {
		event, err := s.NextEvent()
		if event.Kind == NoEvent {
			return nil, event.Finish, true, err
		}
		return &event, event.Finish, event.Kind == EventFinished, err
	})}
}

// Sends what next gives, where it gives something, until it was the last one. next also tells why
// the reply ended.
func generate[T any](ctx context.Context, session *Session, to chan<- T,
	next func() (item *T, finish Finish, last bool, err error)) *Ending {
	ending := &Ending{ended: make(chan struct{})}
	go func() {
		defer close(ending.ended)
		defer close(to)
		stop := session.cancelWith(ctx)
		defer stop()
		for last := false; !last; {
			var item *T
			item, ending.finish, last, ending.err = next()
			if item == nil {
				continue
			}
			select {
			case to <- *item:
			case <-ctx.Done(): // nobody needs to listen any more
			}
		}
		if ending.err == nil && ending.finish == FinishCancelled {
			ending.err = ctx.Err()
		}
	}()
	return ending
}

// Cancels the session's reply when ctx is done. The function that is returned ends that: a later
// reply is not touched.
func (s *Session) cancelWith(ctx context.Context) (stop func()) {
	s.mutex.Lock()
	held := C.kimi_session_retain(s.raw) // nil stays nil
	log := s.log
	if held == nil {
		log = nil
	}
	log.hold()
	s.mutex.Unlock()
	stopped, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer log.release()
		defer C.kimi_session_destroy(held)
		select {
		case <-ctx.Done():
			C.kimi_session_cancel(held)
		case <-stopped:
		}
	}()
	return func() {
		close(stopped)
		<-gone
	}
}
