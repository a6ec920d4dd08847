// Package kimi runs Moonshot's Kimi K2.6 inside your program, with the C library libkimi.
//
// The header kimi/kimi.h is the manual; the methods here have the names of its functions, and
// comments where they differ from them. Everything may be used from any goroutine.
package kimi

// #cgo pkg-config: kimi
// #include <kimi/kimi.h>
import "C"

import "unsafe"

// Calls a function that returns a status and fills in an error.
func call(function func(*C.kimi_error) C.kimi_status) error {
	var e C.kimi_error
	C.kimi_error_init_sized(&e, C.sizeof_kimi_error)
	if status := function(&e); status != C.KIMI_OK {
		return &Error{Status(status), C.GoString(&e.message[0])}
	}
	return nil
}

// Calls a function that fills a buffer of n elements and tells how many it needed; again with those
// where the guess was too small.
func fill[T any](guess int, function func(*T, C.size_t, *C.size_t, *C.kimi_error) C.kimi_status) ([]T, error) {
	for {
		buffer := make([]T, guess)
		var needed C.size_t
		err := call(func(e *C.kimi_error) C.kimi_status {
			return function(first(buffer), C.size_t(len(buffer)), &needed, e)
		})
		if err == nil {
			return buffer[:needed], nil
		}
		if !Is(err, TooLong) || int(needed) <= guess {
			return nil, err
		}
		guess = int(needed)
	}
}

// The address of a slice's elements; nil where there are none.
func first[T any](slice []T) *T {
	if len(slice) == 0 {
		return nil
	}
	return &slice[0]
}

func chars(text []byte) *C.char {
	return (*C.char)(unsafe.Pointer(first(text)))
}
