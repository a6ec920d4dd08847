package kimi

// #include <kimi/kimi.h>
import "C"

// Result is one session's part of a batch.
type Result struct {
	Step Step
	Err  error
}

// StepBatch does one step of each session, computed together. All are of one engine. It fails as a
// whole where nothing was computed.
func StepBatch(sessions []*Session) ([]Result, error) {
	handles := make([]*C.kimi_session, len(sessions))
	steps := make([]C.kimi_step, len(sessions))
	for i, session := range sessions {
		if !session.mutex.TryLock() { // waiting could be for each other
			return nil, &Error{InvalidArgument, "a session is in use by another call, or named twice"}
		}
		defer session.mutex.Unlock()
		if session.raw == nil {
			return nil, ErrClosed
		}
		handles[i], steps[i] = session.raw, rawStep()
	}
	err := call(func(e *C.kimi_error) C.kimi_status {
		return C.kimi_decode_batch(first(handles), C.size_t(len(handles)), first(steps), e)
	})
	results := make([]Result, len(steps))
	computed := err == nil
	for i := range steps {
		results[i].Step = newStep(&steps[i])
		if status := steps[i].status; status != C.KIMI_OK {
			computed = true
			results[i].Err = &Error{Status(status), C.GoString(steps[i].error)}
		}
	}
	if !computed {
		return nil, err
	}
	return results, nil
}
