package kimi

// #include <kimi/kimi.h>
// #include <stdlib.h>
import "C"

import "unsafe"

// ConstraintKind tells what a constraint's text is; see kimi_session_set_constraint.
type ConstraintKind uint32

const (
	NoConstraint   ConstraintKind = C.KIMI_CONSTRAINT_NONE
	ConstrainJSON  ConstraintKind = C.KIMI_CONSTRAINT_JSON_SCHEMA // a JSON schema
	ConstrainRegex ConstraintKind = C.KIMI_CONSTRAINT_REGEX       // a regular expression
	ConstrainTools ConstraintKind = C.KIMI_CONSTRAINT_TOOLS       // an array of tools
)

// SetConstraint constrains the replies from the next one on.
func (s *Session) SetConstraint(kind ConstraintKind, text string) error {
	data := []byte(text)
	return s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_set_constraint(raw, C.uint32_t(kind), chars(data), C.size_t(len(data)), err)
	})
}

// SetLogitBias sets what is added to the logits of tokens, from the next reply on.
func (s *Session) SetLogitBias(biases map[int32]float32) error {
	list := make([]C.kimi_logit_bias, 0, len(biases))
	for token, bias := range biases {
		list = append(list, C.kimi_logit_bias{token: C.int32_t(token), bias: C.float(bias)})
	}
	return s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_set_logit_bias(raw, first(list), C.size_t(len(list)), err)
	})
}

// SetStopStrings sets the strings that end replies, from the next one on.
func (s *Session) SetStopStrings(strings ...string) error {
	list := make([]*C.char, len(strings))
	for i, text := range strings {
		list[i] = C.CString(text)
		defer C.free(unsafe.Pointer(list[i]))
	}
	return s.call(func(raw *C.kimi_session, err *C.kimi_error) C.kimi_status {
		return C.kimi_session_set_stop_strings(raw, first(list), C.size_t(len(list)), err)
	})
}
