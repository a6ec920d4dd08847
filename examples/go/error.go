package kimi

// #include <kimi/kimi.h>
import "C"

import "errors"

// Status tells what kind of failure an error is; KIMI_* in the header.
type Status int32

const (
	InvalidArgument   Status = C.KIMI_INVALID_ARGUMENT
	NotFound          Status = C.KIMI_NOT_FOUND
	IO                Status = C.KIMI_IO
	Corrupt           Status = C.KIMI_CORRUPT
	Unsupported       Status = C.KIMI_UNSUPPORTED
	OutOfMemory       Status = C.KIMI_OUT_OF_MEMORY
	DeviceOutOfMemory Status = C.KIMI_DEVICE_OUT_OF_MEMORY
	TooLong           Status = C.KIMI_TOO_LONG
	Busy              Status = C.KIMI_BUSY
	Cancelled         Status = C.KIMI_CANCELLED
	Deadline          Status = C.KIMI_DEADLINE
	DeviceLost        Status = C.KIMI_DEVICE_LOST
	VersionMismatch   Status = C.KIMI_VERSION_MISMATCH
	Numeric           Status = C.KIMI_NUMERIC
	Internal          Status = C.KIMI_INTERNAL
)

// String returns the name in the header, such as "KIMI_BUSY".
func (s Status) String() string {
	return C.GoString(C.kimi_status_name(C.kimi_status(s)))
}

// Error is a status of the library and its text, which names the argument, file, tensor or field.
type Error struct {
	Status  Status
	Message string
}

func (e *Error) Error() string { return e.Message }

// Is tells whether an error is one of the library's with this status.
func Is(err error, status Status) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// ErrClosed is the error of everything that is used after its Close.
var ErrClosed = errors.New("kimi: used after Close")
