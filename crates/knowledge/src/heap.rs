//! The memory of an engine: one region that everything it makes is in, so that what a function left behind is taken away by
//! putting back, byte for byte, what was there before it.

#![allow(unsafe_code, reason = "an allocator hands out bare memory; there is no other way to write one")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use rlsf::{GRANULARITY, Tlsf};
use rquickjs::allocator::Allocator;

/// Twice what a function may have: a list that grows is there twice while it is copied.
const LENGTH: usize = 16 * 1024 * 1024;
/// As the C library aligns what it hands out.
const ALIGN: usize = 16;

/// What the region is made of.
#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// Blocks of up to 32 MiB, which is more than there is.
type Blocks = Tlsf<'static, u32, u16, 20, 16>;

/// At the start of the region, and so part of what is put back.
#[repr(C, align(32))]
struct Head {
    blocks: Blocks,
    /// Nothing after this was ever written, but the end of the region.
    mark: usize,
}

/// The region itself.
struct Region {
    start: NonNull<u8>,
}

impl Region {
    const LAYOUT: Layout = Layout::new::<[Page; LENGTH / size_of::<Page>()]>();

    fn new() -> Option<Self> {
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) })?;
        let region = Region { start };
        let mut blocks = Blocks::new();
        let first = size_of::<Head>().next_multiple_of(GRANULARITY);
        // SAFETY: from `first` on the region is nobody else's; it is given back after the head that refers to it.
        unsafe {
            let rest = NonNull::slice_from_raw_parts(start.add(first), LENGTH - first);
            blocks.insert_free_block_ptr(rest)?;
            region.head().write(Head { blocks, mark: first + GRANULARITY });
        }
        Some(region)
    }

    fn head(&self) -> NonNull<Head> {
        self.start.cast()
    }

    /// Where the region ends, its last block has a word to say about the one before it.
    fn end(&self) -> NonNull<u8> {
        // SAFETY: it is within the region.
        unsafe { self.start.add(LENGTH - GRANULARITY) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was allocated so, and whoever used it holds a share of it and is gone.
        unsafe { dealloc(self.start.as_ptr(), Self::LAYOUT) }
    }
}

/// An engine's memory. The engine has one share of it, and whoever puts it back the other.
pub(crate) struct Heap(Rc<Region>);

impl Heap {
    pub(crate) fn new() -> Option<Self> {
        Some(Heap(Rc::new(Region::new()?)))
    }

    /// Its other share.
    pub(crate) fn share(&self) -> Self {
        Heap(Rc::clone(&self.0))
    }

    fn mark(&self) -> usize {
        // SAFETY: the head is written when the region is made, and nobody writes to it meanwhile.
        unsafe { self.0.head().as_ref() }.mark
    }

    /// Everything that is in it, for as often as it is to be put back.
    pub(crate) fn image(&self) -> Image {
        let copy = |from: NonNull<u8>, length: usize| {
            // SAFETY: that many bytes from there are within the region, and were zeroed when it was made.
            unsafe { std::slice::from_raw_parts(from.as_ptr(), length) }.to_vec()
        };
        Image { start: copy(self.0.start, self.mark()), end: copy(self.0.end(), GRANULARITY) }
    }

    /// Puts back what was in it, and leaves nothing else.
    ///
    /// # Safety
    ///
    /// The image is of this heap. Whatever refers to something in it was there when the image was made, and is as
    /// it was then.
    pub(crate) unsafe fn put_back(&mut self, image: &Image) {
        let (start, kept) = (self.0.start.as_ptr(), image.start.len());
        let used = self.mark().saturating_sub(kept);
        // SAFETY: the mark is within the region, and both parts of the image are as long as where they came from.
        unsafe {
            ptr::write_bytes(start.add(kept), 0, used);
            ptr::copy_nonoverlapping(image.start.as_ptr(), start, kept);
            ptr::copy_nonoverlapping(image.end.as_ptr(), self.0.end().as_ptr(), image.end.len());
        }
    }
}

#[cfg(test)]
impl Heap {
    /// Whether there is nothing in it but what is in the image.
    pub(crate) fn is_clear_after(&self, image: &Image) -> bool {
        let kept = image.start.len();
        // SAFETY: it is within the region, which was zeroed when it was made.
        let rest = unsafe {
            std::slice::from_raw_parts(self.0.start.as_ptr().add(kept), LENGTH - GRANULARITY - kept)
        };
        rest.iter().all(|byte| *byte == 0)
    }
}

/// What a heap held at one moment.
#[derive(PartialEq, Eq)]
pub(crate) struct Image {
    start: Vec<u8>,
    end: Vec<u8>,
}

/// How long a block is, in front of it: the engine asks, and counts by that what a function has.
const HEADER: usize = ALIGN;

/// A block with its header, if there can be one that long.
fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEADER)?, ALIGN).ok()
}

impl Heap {
    /// Hands out what these blocks have for so many bytes, and notes how far the region has been written.
    fn taken(&mut self, size: usize, take: impl FnOnce(&mut Blocks) -> Option<NonNull<u8>>) -> *mut u8 {
        // SAFETY: the engine has one thread, and asks for one thing at a time.
        let head = unsafe { self.0.head().as_mut() };
        let Some(block) = take(&mut head.blocks) else { return ptr::null_mut() };
        let end = block.as_ptr().addr() - self.0.start.as_ptr().addr() + HEADER + size;
        // It is rounded up, and what is free behind it begins with a few words about itself.
        head.mark = head.mark.max(end + 2 * GRANULARITY).min(LENGTH - GRANULARITY);
        // SAFETY: it is that much longer than what was asked for, and aligned to more than a word.
        unsafe {
            block.cast::<usize>().write(size);
            block.add(HEADER).as_ptr()
        }
    }
}

/// The block that the engine knows by its content.
///
/// # Safety
///
/// It was handed out by a heap, and not given back since.
unsafe fn with_header(content: *mut u8) -> Option<NonNull<u8>> {
    // SAFETY: what was handed out has a header in front of it.
    NonNull::new(content).map(|content| unsafe { content.sub(HEADER) })
}

// SAFETY: the blocks hand out memory that is long enough and aligned to more than a word, or none.
unsafe impl Allocator for Heap {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.taken(size, |blocks| blocks.allocate(layout(size)?))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(size) = count.checked_mul(size) else { return ptr::null_mut() };
        let content = self.alloc(size);
        if !content.is_null() {
            // SAFETY: it is that long.
            unsafe { ptr::write_bytes(content, 0, size) };
        }
        content
    }

    unsafe fn dealloc(&mut self, content: *mut u8) {
        // SAFETY: whoever calls this had it from here, and the engine asks for one thing at a time.
        unsafe {
            let Some(block) = with_header(content) else { return };
            self.0.head().as_mut().blocks.deallocate(block, ALIGN);
        }
    }

    unsafe fn realloc(&mut self, content: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: whoever calls this had it from here.
        let Some(block) = (unsafe { with_header(content) }) else { return self.alloc(size) };
        // SAFETY: as above, and with the same alignment.
        self.taken(size, |blocks| unsafe { blocks.reallocate(block, layout(size)?) })
    }

    unsafe fn usable_size(content: *mut u8) -> usize {
        // SAFETY: whoever calls this had it from here, and its header was written then.
        unsafe { with_header(content).map_or(0, |block| block.cast::<usize>().read()) }
    }
}
