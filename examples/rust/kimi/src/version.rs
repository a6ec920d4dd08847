use kimi_sys as sys;
use std::ffi::{CStr, CString};
use std::ptr;

/// The version of the library that runs, "MAJOR.MINOR.PATCH".
pub fn version() -> &'static str {
    // SAFETY: the text is static.
    let text = unsafe { CStr::from_ptr(sys::kimi_version(ptr::null_mut())) };
    text.to_str().unwrap_or_default()
}

/// Whether the library, on this machine, has a feature; false for names that it does not know.
pub fn has_feature(name: &str) -> bool {
    // SAFETY: name outlives the call.
    CString::new(name).map_or(false, |name| unsafe { sys::kimi_has_feature(name.as_ptr()) != 0 })
}
