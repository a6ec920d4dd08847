package kimi

// #include <kimi/kimi.h>
import "C"

import (
	"runtime/cgo"
	"sync/atomic"
)

// Level is what a line of an engine's log is about.
type Level int32

const (
	LogError   = Level(C.KIMI_LOG_ERROR)   // the engine failed
	LogWarning = Level(C.KIMI_LOG_WARNING) // something will make it slow or small
	LogInfo    = Level(C.KIMI_LOG_INFO)    // what was loaded
)

// A log function on its way through C. The engine and its sessions hold it: the last of them to be
// closed is the last that may call it. A nil logger is no function.
type logger struct {
	function func(level Level, line string)
	handle   cgo.Handle
	holders  atomic.Int32
}

func newLogger(function func(level Level, line string)) *logger {
	if function == nil {
		return nil
	}
	log := &logger{function: function}
	log.handle = cgo.NewHandle(log)
	return log.hold()
}

func (l *logger) user() C.uintptr_t {
	if l == nil {
		return 0
	}
	return C.uintptr_t(l.handle)
}

func (l *logger) hold() *logger {
	if l != nil {
		l.holders.Add(1)
	}
	return l
}

func (l *logger) release() {
	if l != nil && l.holders.Add(-1) == 0 {
		l.handle.Delete()
	}
}

//export kimiGoLog
func kimiGoLog(user C.uintptr_t, level C.int32_t, text *C.char) {
	// A panic must not pass through C++, and there is no caller to hand it to.
	defer func() { _ = recover() }()
	cgo.Handle(user).Value().(*logger).function(Level(level), C.GoString(text))
}
