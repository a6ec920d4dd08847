//! Memory of the program for an engine.
use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::os::raw::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An allocator, and the layouts of what it gave: the library does not repeat them. Each piece holds
/// the allocator, since a thread that hangs may give its memory back later than anything else.
pub struct Memory {
    allocator: Box<dyn GlobalAlloc + Send + Sync>,
    layouts: Mutex<HashMap<usize, Layout>>,
}

impl Memory {
    pub fn new(allocator: Box<dyn GlobalAlloc + Send + Sync>) -> Memory {
        Memory { allocator, layouts: Mutex::new(HashMap::new()) }
    }

    fn layouts(&self) -> MutexGuard<'_, HashMap<usize, Layout>> {
        self.layouts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `user` is an `Arc<Memory>` that somebody holds.
pub unsafe extern "C" fn allocate(
    user: *mut c_void,
    bytes: usize,
    alignment: usize,
) -> *mut c_void {
    let memory = user as *const Memory;
    let layout = match Layout::from_size_align(bytes.max(1), alignment) {
        Ok(layout) => layout,
        Err(_) => return ptr::null_mut(),
    };
    let piece = (*memory).allocator.alloc(layout);
    if !piece.is_null() {
        (*memory).layouts().insert(piece as usize, layout);
        Arc::increment_strong_count(memory);
    }
    piece as *mut c_void
}

/// `piece` is what `allocate` gave for the same `user`.
pub unsafe extern "C" fn release(user: *mut c_void, piece: *mut c_void, _bytes: usize) {
    let memory = Arc::from_raw(user as *const Memory);
    let layout = memory.layouts().remove(&(piece as usize));
    if let Some(layout) = layout {
        memory.allocator.dealloc(piece as *mut u8, layout);
    }
}
