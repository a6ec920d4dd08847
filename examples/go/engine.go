package kimi

/*
#include <kimi/kimi.h>
#include <stdlib.h>

extern int32_t kimiGoProgress(uintptr_t user, uint64_t done, uint64_t total);
extern void kimiGoLog(uintptr_t user, int32_t level, char *text);

static int32_t progress(void *user, uint64_t done, uint64_t total) {
    return kimiGoProgress((uintptr_t)user, done, total);
}

static void log_line(void *user, int32_t level, const char *text) {
    kimiGoLog((uintptr_t)user, level, (char *)text);
}

static kimi_status engine_create(const char *deployment, uintptr_t user, uintptr_t log_user,
                                 kimi_engine **out, kimi_error *error) {
    kimi_engine_options options;
    kimi_engine_options_init_sized(&options, sizeof options);
    options.deployment = deployment;
    options.progress = user != 0 ? progress : NULL;
    options.user = (void *)user;
    options.log = log_user != 0 ? log_line : NULL;
    options.log_user = (void *)log_user;
    return kimi_engine_create(&options, out, error);
}
*/
import "C"

import (
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// Engine is a loaded deployment. Its memory returns when it and all its sessions are closed, or are
// garbage.
type Engine struct {
	mutex sync.RWMutex // held for reading during calls, for writing by Close
	raw   *C.kimi_engine
	log   *logger
}

// OpenOptions are functions that an engine calls. The options allocate and release of
// kimi_engine_options are left out: they want memory that C++ may keep pointers in and that does not
// move or vanish, which is C's and not Go's, and so is a function that gives it.
type OpenOptions struct {
	// Progress is called while loading, with bytes done and in total, and stops the loading by
	// returning false. nil is no function.
	Progress func(done, total uint64) bool
	// Log gets what happens to the engine, one line at a time, on the thread on which it happens.
	// It must not call methods of the engine or its sessions: they would wait for it. A panic of it
	// ends with it. nil is no function.
	Log func(level Level, line string)
}

// Open loads a deployment (JSON or binary) or a checkpoint folder.
func Open(deployment string) (*Engine, error) {
	return OpenWith(deployment, OpenOptions{})
}

// OpenWith does the same with options.
func OpenWith(deployment string, options OpenOptions) (*Engine, error) {
	path := C.CString(deployment)
	defer C.free(unsafe.Pointer(path))
	user := &progress{function: options.Progress}
	var handle cgo.Handle
	if options.Progress != nil {
		handle = cgo.NewHandle(user)
		defer handle.Delete()
	}
	engine := &Engine{log: newLogger(options.Log)}
	err := call(func(e *C.kimi_error) C.kimi_status {
		return C.engine_create(path, C.uintptr_t(handle), engine.log.user(), &engine.raw, e)
	})
	if err != nil {
		engine.log.release()
	}
	if user.panicked != nil {
		panic(user.panicked)
	}
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(engine, (*Engine).Close)
	return engine, nil
}

// Close gives up the engine; its sessions go on. It may be called again.
func (e *Engine) Close() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.raw != nil {
		C.kimi_engine_destroy(e.raw)
		e.log.release()
	}
	e.raw = nil
	runtime.SetFinalizer(e, nil)
}

// Calls a function that needs the engine open.
func (e *Engine) call(function func(*C.kimi_engine, *C.kimi_error) C.kimi_status) error {
	e.mutex.RLock()
	defer e.mutex.RUnlock()
	if e.raw == nil {
		return ErrClosed
	}
	return call(func(err *C.kimi_error) C.kimi_status { return function(e.raw, err) })
}

// NewSession makes an empty session.
func (e *Engine) NewSession(options Options) (*Session, error) {
	return newSession(e, func(raw *C.kimi_engine, out **C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_create(raw, options.raw(), out, err)
	})
}

func restoreFlags(recompute bool) C.uint32_t {
	if recompute {
		return C.KIMI_RECOMPUTE
	}
	return 0
}

// Restore makes a session from what Save wrote. With recompute, KV that cannot be used is computed
// again.
func (e *Engine) Restore(path string, recompute bool) (*Session, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return newSession(e, func(raw *C.kimi_engine, out **C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_restore(raw, name, restoreFlags(recompute), out, err)
	})
}

// RestoreBytes does the same with what Bytes gave.
func (e *Engine) RestoreBytes(data []byte, recompute bool) (*Session, error) {
	return newSession(e, func(raw *C.kimi_engine, out **C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_restore_buffer(raw, unsafe.Pointer(first(data)), C.size_t(len(data)),
			restoreFlags(recompute), out, err)
	})
}

// SaveTrace writes what every device did to a file, as a trace in Chrome's JSON format.
func (e *Engine) SaveTrace(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return e.call(func(raw *C.kimi_engine, err *C.kimi_error) C.kimi_status {
		return C.kimi_engine_save_trace(raw, name, err)
	})
}

// Defragment moves KV pages until every sequence is contiguous.
func (e *Engine) Defragment() error {
	return e.call(func(raw *C.kimi_engine, err *C.kimi_error) C.kimi_status {
		return C.kimi_engine_defragment(raw, err)
	})
}
