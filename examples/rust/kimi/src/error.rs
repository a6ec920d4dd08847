use kimi_sys as sys;
use std::ffi::CStr;
use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

/// A status of the library and its text, which names the argument, file, tensor or field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: Status,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

macro_rules! statuses {
    ($($name:ident = $code:ident,)*) => {
        /// What kind of failure an error is; `KIMI_*` in the header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Status {
            $($name,)*
            /// Of a newer library.
            Other(i32),
        }

        impl Status {
            /// The name in the header, such as "KIMI_BUSY".
            pub fn name(self) -> &'static str {
                let code = match self {
                    $(Status::$name => sys::$code,)*
                    Status::Other(code) => code,
                };
                // SAFETY: the text is static.
                let text = unsafe { CStr::from_ptr(sys::kimi_status_name(code)) };
                text.to_str().unwrap_or_default()
            }
        }

        impl From<sys::kimi_status> for Status {
            fn from(code: sys::kimi_status) -> Status {
                match code {
                    $(sys::$code => Status::$name,)*
                    other => Status::Other(other),
                }
            }
        }
    };
}

statuses! {
    InvalidArgument = KIMI_INVALID_ARGUMENT,
    NotFound = KIMI_NOT_FOUND,
    Io = KIMI_IO,
    Corrupt = KIMI_CORRUPT,
    Unsupported = KIMI_UNSUPPORTED,
    OutOfMemory = KIMI_OUT_OF_MEMORY,
    DeviceOutOfMemory = KIMI_DEVICE_OUT_OF_MEMORY,
    TooLong = KIMI_TOO_LONG,
    Busy = KIMI_BUSY,
    Cancelled = KIMI_CANCELLED,
    Deadline = KIMI_DEADLINE,
    DeviceLost = KIMI_DEVICE_LOST,
    VersionMismatch = KIMI_VERSION_MISMATCH,
    Numeric = KIMI_NUMERIC,
    Internal = KIMI_INTERNAL,
}
