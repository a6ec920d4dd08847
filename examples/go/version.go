package kimi

// #include <kimi/kimi.h>
// #include <stdlib.h>
import "C"

import "unsafe"

// Version returns the version of the library that runs, "MAJOR.MINOR.PATCH".
func Version() string {
	return C.GoString(C.kimi_version(nil))
}

// HasFeature tells whether the library, on this machine, has a feature; false for names that it does
// not know.
func HasFeature(name string) bool {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return C.kimi_has_feature(text) != 0
}
