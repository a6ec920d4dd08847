use crate::call::{c_path, fill, make};
use crate::{Engine, Result};
use kimi_sys as sys;
use std::os::raw::c_char;
use std::path::Path;
use std::ptr;

/// Text to tokens and back, and the chat template.
pub struct Tokenizer {
    raw: *const sys::kimi_tokenizer,
    /// The engine that it is borrowed from; without one it is our own.
    engine: Option<Engine>,
}

// SAFETY: the interface allows a tokenizer in any number of threads.
unsafe impl Send for Tokenizer {}
unsafe impl Sync for Tokenizer {}

impl Drop for Tokenizer {
    fn drop(&mut self) {
        if self.engine.is_none() {
            // SAFETY: made by kimi_tokenizer_create and destroyed once.
            unsafe { sys::kimi_tokenizer_destroy(self.raw as *mut _) }
        }
    }
}

impl Tokenizer {
    /// The tokenizer of a checkpoint folder.
    pub fn open(checkpoint: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = c_path(checkpoint.as_ref())?;
        // SAFETY: path outlives the call.
        let raw = make(ptr::null_mut(), |out, error| unsafe {
            sys::kimi_tokenizer_create(path.as_ptr(), out, error)
        })?;
        Ok(Tokenizer { raw, engine: None })
    }

    pub(crate) fn of_engine(engine: &Engine) -> Tokenizer {
        // SAFETY: the tokenizer is valid while the engine is, which the clone sees to.
        let raw = unsafe { sys::kimi_engine_tokenizer(engine.raw()) };
        Tokenizer { raw, engine: Some(engine.clone()) }
    }

    /// The tokens of a text. With `specials`, names such as `<|im_end|>` become their token, which
    /// text of users must not.
    pub fn tokenize(&self, text: &str, specials: bool) -> Result<Vec<i32>> {
        let flags = if specials { sys::KIMI_SPECIALS } else { 0 };
        // A token takes a byte or more.
        // SAFETY: text outlives the call, and at most cap tokens are written.
        fill(text.len(), |tokens, cap, n, error| unsafe {
            let data = text.as_ptr() as *const c_char;
            sys::kimi_tokenize(self.raw, data, text.len(), flags, tokens, cap, n, error)
        })
    }

    /// The exact bytes of tokens, special names included; not UTF-8 where they were cut inside of a
    /// character.
    pub fn detokenize(&self, tokens: &[i32]) -> Result<Vec<u8>> {
        // SAFETY: tokens outlive the call, and at most cap bytes are written.
        fill(8 * tokens.len(), |text: *mut u8, cap, len, error| unsafe {
            let out = text as *mut c_char;
            sys::kimi_detokenize(self.raw, tokens.as_ptr(), tokens.len(), out, cap, len, error)
        })
    }

    /// The exact text of the chat template for a conversation in JSON.
    pub fn render_chat(&self, json: &str) -> Result<String> {
        // SAFETY: json outlives the call, and at most cap bytes are written.
        let text = fill(2 * json.len(), |text: *mut u8, cap, len, error| unsafe {
            let data = json.as_ptr() as *const c_char;
            sys::kimi_chat_render(self.raw, data, json.len(), text as *mut c_char, cap, len, error)
        })?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
