package kimi

// #include <kimi/kimi.h>
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// Tokenizer turns text into tokens and back, and renders conversations.
type Tokenizer struct {
	mutex  sync.RWMutex // held for reading during calls, for writing by Close
	raw    *C.kimi_tokenizer
	engine *Engine // that it is borrowed from; nil: it is our own
}

// OpenTokenizer opens the tokenizer of a checkpoint folder.
func OpenTokenizer(checkpoint string) (*Tokenizer, error) {
	path := C.CString(checkpoint)
	defer C.free(unsafe.Pointer(path))
	t := &Tokenizer{}
	err := call(func(e *C.kimi_error) C.kimi_status {
		return C.kimi_tokenizer_create(path, &t.raw, e)
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(t, (*Tokenizer).Close)
	return t, nil
}

// Tokenizer returns the engine's own, which needs no Close and works until the engine's.
func (e *Engine) Tokenizer() *Tokenizer {
	return &Tokenizer{engine: e}
}

// Close gives up the tokenizer. It may be called again.
func (t *Tokenizer) Close() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	C.kimi_tokenizer_destroy(t.raw)
	t.raw = nil
	runtime.SetFinalizer(t, nil)
}

// Calls a function that needs the tokenizer open.
func (t *Tokenizer) use(function func(*C.kimi_tokenizer) error) error {
	if t.engine != nil {
		t.engine.mutex.RLock()
		defer t.engine.mutex.RUnlock()
		if t.engine.raw == nil {
			return ErrClosed
		}
		return function(C.kimi_engine_tokenizer(t.engine.raw))
	}
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if t.raw == nil {
		return ErrClosed
	}
	return function(t.raw)
}

// Tokenize returns the tokens of a text. With specials, names such as <|im_end|> become their token,
// which text of users must not.
func (t *Tokenizer) Tokenize(text string, specials bool) (tokens []int32, err error) {
	var flags C.uint32_t
	if specials {
		flags = C.KIMI_SPECIALS
	}
	data := []byte(text)
	err = t.use(func(raw *C.kimi_tokenizer) (err error) {
		// A token takes a byte or more.
		tokens, err = fill(len(data), func(out *int32, n C.size_t, needed *C.size_t, e *C.kimi_error) C.kimi_status {
			return C.kimi_tokenize(raw, chars(data), C.size_t(len(data)), flags, (*C.int32_t)(out), n, needed, e)
		})
		return err
	})
	return tokens, err
}

// Detokenize returns the exact bytes of tokens, special names included; not UTF-8 where they were cut
// inside of a character.
func (t *Tokenizer) Detokenize(tokens []int32) (text []byte, err error) {
	err = t.use(func(raw *C.kimi_tokenizer) (err error) {
		text, err = fill(8*len(tokens), func(out *byte, n C.size_t, needed *C.size_t, e *C.kimi_error) C.kimi_status {
			return C.kimi_detokenize(raw, (*C.int32_t)(first(tokens)), C.size_t(len(tokens)),
				(*C.char)(unsafe.Pointer(out)), n, needed, e)
		})
		return err
	})
	return text, err
}

// RenderChat returns the exact text of the chat template for a conversation in JSON.
func (t *Tokenizer) RenderChat(json []byte) (string, error) {
	var text []byte
	err := t.use(func(raw *C.kimi_tokenizer) (err error) {
		text, err = fill(2*len(json), func(out *byte, n C.size_t, needed *C.size_t, e *C.kimi_error) C.kimi_status {
			return C.kimi_chat_render(raw, chars(json), C.size_t(len(json)),
				(*C.char)(unsafe.Pointer(out)), n, needed, e)
		})
		return err
	})
	return string(text), err
}
