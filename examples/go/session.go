package kimi

// #include <kimi/kimi.h>
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// Session is a growing sequence of tokens: prompts that are appended and replies that are generated.
// It keeps its engine alive. Calls from several goroutines wait for each other.
type Session struct {
	mutex sync.Mutex
	raw   *C.kimi_session
	log   *logger
}

func ownSession(raw *C.kimi_session, log *logger) *Session {
	session := &Session{raw: raw, log: log.hold()}
	runtime.SetFinalizer(session, (*Session).Close)
	return session
}

func newSession(engine *Engine,
	function func(*C.kimi_engine, **C.kimi_session, *C.kimi_error) C.kimi_status) (*Session, error) {
	var raw *C.kimi_session
	var session *Session
	err := engine.call(func(handle *C.kimi_engine, err *C.kimi_error) C.kimi_status {
		status := function(handle, &raw, err)
		if status == C.KIMI_OK {
			session = ownSession(raw, engine.log)
		}
		return status
	})
	return session, err
}

// Close gives up the session, after the step that is computed. It may be called again.
func (s *Session) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.raw != nil {
		C.kimi_session_destroy(s.raw)
		s.log.release()
	}
	s.raw = nil
	runtime.SetFinalizer(s, nil)
}

// Calls a function that needs the session open.
func (s *Session) call(function func(*C.kimi_session, *C.kimi_error) C.kimi_status) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.raw == nil {
		return ErrClosed
	}
	return call(func(err *C.kimi_error) C.kimi_status { return function(s.raw, err) })
}

// SetOptions changes the options from the next reply on.
func (s *Session) SetOptions(options Options) error {
	return s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_set_options(raw, options.raw(), err)
	})
}

// Append appends prompt tokens and starts a new reply.
func (s *Session) Append(tokens []int32) error {
	return s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_append(raw, (*C.int32_t)(first(tokens)), C.size_t(len(tokens)), err)
	})
}

// AppendChat appends a conversation, the whole of it, in JSON: {"messages": [...], "tools": [...],
// ...}. The session keeps what it has already processed.
func (s *Session) AppendChat(json []byte) error {
	return s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_append_chat(raw, chars(json), C.size_t(len(json)), err)
	})
}

// Step does one bounded piece of work: a chunk of the prompt, or one decode step.
func (s *Session) Step() (step Step, err error) {
	raw := rawStep()
	err = s.call(func(session *C.kimi_session, e *C.kimi_error) C.kimi_status {
		status := C.kimi_decode_step(session, &raw, e)
		step = newStep(&raw)
		return status
	})
	return step, err
}

// Submit asks for a step that the engine computes in the background.
func (s *Session) Submit() error {
	return s.call(func(session *C.kimi_session, e *C.kimi_error) C.kimi_status {
		return C.kimi_session_submit(session, e)
	})
}

// Poll returns the submitted step, if it is ready. It never waits.
func (s *Session) Poll() (step Step, ready bool, err error) {
	raw := rawStep()
	var done C.int32_t
	err = s.call(func(session *C.kimi_session, e *C.kimi_error) C.kimi_status {
		status := C.kimi_session_poll(session, &raw, &done, e)
		step = newStep(&raw)
		return status
	})
	return step, done != 0, err
}

// WakeFD returns a descriptor that is readable while a submitted step is done and not collected. It
// is the session's.
func (s *Session) WakeFD() (int, error) {
	var fd C.int32_t
	err := s.call(func(session *C.kimi_session, e *C.kimi_error) C.kimi_status {
		return C.kimi_session_wake_fd(session, &fd, e)
	})
	return int(fd), err
}

// Length returns the number of tokens of prompts and replies.
func (s *Session) Length() (n uint64, err error) {
	err = s.call(func(raw *C.kimi_session, _ *C.kimi_error) C.kimi_status {
		n = uint64(C.kimi_session_length(raw))
		return C.KIMI_OK
	})
	return n, err
}

// Truncate drops all tokens from n on and ends the reply in progress.
func (s *Session) Truncate(n uint64) error {
	return s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_truncate(raw, C.uint64_t(n), err)
	})
}

// Fork makes a new session in the same state, a reply in progress included. nil keeps the options.
func (s *Session) Fork(options *Options) (*Session, error) {
	var changed *C.kimi_session_options
	if options != nil {
		changed = options.raw()
	}
	var fork *Session
	err := s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		var out *C.kimi_session
		status := C.kimi_session_fork(raw, changed, &out, err)
		if status == C.KIMI_OK {
			fork = ownSession(out, s.log)
		}
		return status
	})
	return fork, err
}

// Save writes the session to a file, which appears complete or not at all.
func (s *Session) Save(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_save(raw, name, err)
	})
}

// Bytes returns the same as bytes.
func (s *Session) Bytes() ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.raw == nil {
		return nil, ErrClosed
	}
	return fill(0, func(out *byte, n C.size_t, needed *C.size_t, e *C.kimi_error) C.kimi_status {
		return C.kimi_session_save_buffer(s.raw, unsafe.Pointer(out), n, needed, e)
	})
}
