//! How the interface's functions are called.
use crate::{Error, Result, Status};
use kimi_sys as sys;
use std::ffi::{CStr, CString};
use std::mem::{size_of, MaybeUninit};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Calls a function that returns a status and fills in an error.
pub fn call(function: impl FnOnce(*mut sys::kimi_error) -> sys::kimi_status) -> Result<()> {
    let mut error = initial(sys::kimi_error_init_sized);
    match function(&mut error) {
        sys::KIMI_OK => Ok(()),
        status => Err(Error {
            status: status.into(),
            // SAFETY: the library ends the message with a NUL.
            message: unsafe { CStr::from_ptr(error.message.as_ptr()) }
                .to_string_lossy()
                .into_owned(),
        }),
    }
}

/// Calls a function that makes a handle or another value.
pub fn make<T>(
    initial: T,
    function: impl FnOnce(*mut T, *mut sys::kimi_error) -> sys::kimi_status,
) -> Result<T> {
    let mut value = initial;
    call(|error| function(&mut value, error))?;
    Ok(value)
}

/// Calls a function that fills a buffer of `cap` elements and tells how many it needed; again with
/// those where the guess was too small.
pub fn fill<T: Clone + Default>(
    guess: usize,
    mut function: impl FnMut(*mut T, usize, *mut usize, *mut sys::kimi_error) -> sys::kimi_status,
) -> Result<Vec<T>> {
    let mut buffer = vec![T::default(); guess];
    loop {
        let mut needed = 0;
        let result = call(|e| function(buffer.as_mut_ptr(), buffer.len(), &mut needed, e));
        match result {
            Err(error) if error.status == Status::TooLong && needed > buffer.len() => {
                buffer.resize(needed, T::default())
            }
            Err(error) => return Err(error),
            Ok(()) => {
                buffer.truncate(needed);
                return Ok(buffer);
            }
        }
    }
}

/// A struct of the interface with its defaults.
pub fn initial<T>(init: unsafe extern "C" fn(*mut T, usize)) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: init writes at most the given size, and zeros are a valid value of each struct.
    unsafe {
        init(value.as_mut_ptr(), size_of::<T>());
        value.assume_init()
    }
}

pub fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|error| Error {
        status: Status::InvalidArgument,
        message: format!("{:?} has a NUL in it", String::from_utf8_lossy(&error.into_vec())),
    })
}

pub fn c_path(path: &Path) -> Result<CString> {
    c_string(path.as_os_str().as_bytes())
}
