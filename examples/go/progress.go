package kimi

// #include <kimi/kimi.h>
import "C"

import "runtime/cgo"

// A progress function on its way through C, and the panic that it ended with.
type progress struct {
	function func(done, total uint64) bool
	panicked any
}

//export kimiGoProgress
func kimiGoProgress(user C.uintptr_t, done, total C.uint64_t) (stop C.int32_t) {
	p := cgo.Handle(user).Value().(*progress)
	defer func() { // a panic must not pass through C++
		if p.panicked = recover(); p.panicked != nil {
			stop = 1
		}
	}()
	if !p.function(uint64(done), uint64(total)) {
		return 1
	}
	return 0
}
