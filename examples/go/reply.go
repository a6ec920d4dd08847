package kimi

// #include <kimi/kimi.h>
import "C"

import "context"

// Reply is a reply on its way.
type Reply struct {
	// Steps brings the steps and is closed after the last one.
	Steps <-chan Step

	ended  chan struct{}
	finish Finish
	err    error
}

// Reply generates the reply to what was appended. Receive from Steps until it is closed, or cancel
// ctx, which ends the reply at its next step.
func (s *Session) Reply(ctx context.Context) *Reply {
	steps := make(chan Step)
	reply := &Reply{Steps: steps, ended: make(chan struct{})}
	go func() {
		defer close(reply.ended)
		defer close(steps)
		stop := s.cancelWith(ctx)
		defer stop()
		reply.run(ctx, s, steps)
	}()
	return reply
}

func (r *Reply) run(ctx context.Context, session *Session, steps chan<- Step) {
	for {
		step, err := session.Step()
		r.finish = step.Finish
		if err != nil {
			r.err = err
			return
		}
		select {
		case steps <- step:
		case <-ctx.Done(): // nobody needs to listen any more
		}
		if step.Phase == Finished {
			if r.finish == FinishCancelled {
				r.err = ctx.Err()
			}
			return
		}
	}
}

// Wait waits for the end of the reply, and tells why it ended. The error is ctx's where ctx ended it.
func (r *Reply) Wait() (Finish, error) {
	<-r.ended
	return r.finish, r.err
}

// Cancels the session's reply when ctx is done. The function that is returned ends that: a later
// reply is not touched.
func (s *Session) cancelWith(ctx context.Context) (stop func()) {
	s.mutex.Lock()
	held := C.kimi_session_retain(s.raw) // nil stays nil
	s.mutex.Unlock()
	stopped, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
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
