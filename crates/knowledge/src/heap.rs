//! Memory of an engine: one region that contains everything it allocates, so that all effects of a function
//! are removed by restoring the earlier bytes.

#![allow(unsafe_code, reason = "an allocator hands out bare memory; there is no other way to write one")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use rlsf::{GRANULARITY, Tlsf};
use rquickjs::allocator::Allocator;

/// Twice the limit of a function, because a growing list exists twice while it is copied.
const REGION_SIZE: usize = 16 * 1024 * 1024;
/// Alignment of allocations, as in the C library.
const ALIGN: usize = 16;

/// Unit of the region's layout.
#[repr(C, align(4096))]
struct HeapPage([u8; 4096]);

/// Block allocator for blocks of up to 32 MiB, which is larger than the region.
type BlockAllocator = Tlsf<'static, u32, u16, 20, 16>;

/// Allocator state at the start of the region, which is therefore restored with it.
#[repr(C, align(32))]
struct RegionHead {
    blocks: BlockAllocator,
    /// Offset after which only the end of the region was ever written.
    high_water_mark: usize,
}

/// Memory region of one engine.
struct HeapRegion {
    start: NonNull<u8>,
}

impl HeapRegion {
    const LAYOUT: Layout = Layout::new::<[HeapPage; REGION_SIZE / size_of::<HeapPage>()]>();

    fn new() -> Option<Self> {
        // SAFETY: the layout has a non-zero size.
        let start = NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) })?;
        let region = HeapRegion { start };
        let mut blocks = BlockAllocator::new();
        let first = size_of::<RegionHead>().next_multiple_of(GRANULARITY);
        // SAFETY: nothing else uses the region from `first` on, and it is freed after the head that refers to
        // it.
        unsafe {
            let rest = NonNull::slice_from_raw_parts(start.add(first), REGION_SIZE - first);
            blocks.insert_free_block_ptr(rest)?;
            region.head().write(RegionHead { blocks, high_water_mark: first + GRANULARITY });
        }
        Some(region)
    }

    fn head(&self) -> NonNull<RegionHead> {
        self.start.cast()
    }

    /// Returns the end marker of the region, where the allocator stores data about the last block.
    fn end(&self) -> NonNull<u8> {
        // SAFETY: the offset is within the region.
        unsafe { self.start.add(REGION_SIZE - GRANULARITY) }
    }
}

impl Drop for HeapRegion {
    fn drop(&mut self) {
        // SAFETY: the region was allocated with this layout, and all users held an `Rc` to it that is now
        // dropped.
        unsafe { dealloc(self.start.as_ptr(), Self::LAYOUT) }
    }
}

/// Memory of an engine, shared by the engine and the code that restores it.
pub(crate) struct EngineHeap(Rc<HeapRegion>);

impl EngineHeap {
    pub(crate) fn new() -> Option<Self> {
        Some(EngineHeap(Rc::new(HeapRegion::new()?)))
    }

    /// Returns another handle to the same memory.
    pub(crate) fn clone_handle(&self) -> Self {
        EngineHeap(Rc::clone(&self.0))
    }

    fn high_water_mark(&self) -> usize {
        // SAFETY: the head is written when the region is created, and nothing writes to it during this read.
        unsafe { self.0.head().as_ref() }.high_water_mark
    }

    /// Copies the used content, for any number of restores.
    pub(crate) fn image(&self) -> HeapImage {
        let copy = |from: NonNull<u8>, length: usize| {
            // SAFETY: that many bytes from there are within the region, and they were zeroed when it was
            // created.
            unsafe { std::slice::from_raw_parts(from.as_ptr(), length) }.to_vec()
        };
        HeapImage { start: copy(self.0.start, self.high_water_mark()), end: copy(self.0.end(), GRANULARITY) }
    }

    /// Restores the content of the image and clears everything else.
    ///
    /// # Safety
    ///
    /// The image must be of this heap. Everything that refers into the heap must have existed when the image
    /// was taken, and must be in the same state as then.
    pub(crate) unsafe fn restore(&mut self, image: &HeapImage) {
        let (start, image_bytes) = (self.0.start.as_ptr(), image.start.len());
        let used = self.high_water_mark().saturating_sub(image_bytes);
        // SAFETY: the mark is within the region, and both parts of the image are as long as their origin.
        unsafe {
            ptr::write_bytes(start.add(image_bytes), 0, used);
            ptr::copy_nonoverlapping(image.start.as_ptr(), start, image_bytes);
            ptr::copy_nonoverlapping(image.end.as_ptr(), self.0.end().as_ptr(), image.end.len());
        }
    }
}

#[cfg(test)]
impl EngineHeap {
    /// Returns true if the region contains nothing beyond the image.
    pub(crate) fn is_clear_after(&self, image: &HeapImage) -> bool {
        let image_bytes = image.start.len();
        // SAFETY: the range is within the region, which was zeroed when it was created.
        let rest = unsafe {
            std::slice::from_raw_parts(
                self.0.start.as_ptr().add(image_bytes),
                REGION_SIZE - GRANULARITY - image_bytes,
            )
        };
        rest.iter().all(|byte| *byte == 0)
    }
}

/// Copy of the content of a heap.
#[derive(PartialEq, Eq)]
pub(crate) struct HeapImage {
    start: Vec<u8>,
    end: Vec<u8>,
}

/// Size of the header that stores the block length, by which the engine counts the memory of a function.
const HEADER: usize = ALIGN;

/// Returns the layout of a block with its header, or none if the size overflows.
fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEADER)?, ALIGN).ok()
}

impl EngineHeap {
    /// Allocates with `take`, writes the header, and raises the mark of written memory.
    fn allocate_with(
        &mut self,
        size: usize,
        take: impl FnOnce(&mut BlockAllocator) -> Option<NonNull<u8>>,
    ) -> *mut u8 {
        // SAFETY: the engine is single-threaded and makes one request at a time.
        let head = unsafe { self.0.head().as_mut() };
        let Some(block) = take(&mut head.blocks) else { return ptr::null_mut() };
        let end = block.as_ptr().addr() - self.0.start.as_ptr().addr() + HEADER + size;
        // The block is rounded up, and the free block after it starts with a few words of allocator data.
        head.high_water_mark = head.high_water_mark.max(end + 2 * GRANULARITY).min(REGION_SIZE - GRANULARITY);
        // SAFETY: the block is longer than requested by the header, and its alignment exceeds that of a word.
        unsafe {
            block.cast::<usize>().write(size);
            block.add(HEADER).as_ptr()
        }
    }
}

/// Returns the block that contains the content pointer known to the engine.
///
/// # Safety
///
/// A heap must have returned the pointer, and it must not have been freed since.
unsafe fn with_header(content: *mut u8) -> Option<NonNull<u8>> {
    // SAFETY: every allocation has a header in front of it.
    NonNull::new(content).map(|content| unsafe { content.sub(HEADER) })
}

// SAFETY: the allocator returns memory of sufficient length and at least word alignment, or null.
unsafe impl Allocator for EngineHeap {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.allocate_with(size, |blocks| blocks.allocate(layout(size)?))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(size) = count.checked_mul(size) else { return ptr::null_mut() };
        let content = self.alloc(size);
        if !content.is_null() {
            // SAFETY: the allocation has that length.
            unsafe { ptr::write_bytes(content, 0, size) };
        }
        content
    }

    unsafe fn dealloc(&mut self, content: *mut u8) {
        // SAFETY: the caller got the pointer from this heap, and the engine makes one request at a time.
        unsafe {
            let Some(block) = with_header(content) else { return };
            self.0.head().as_mut().blocks.deallocate(block, ALIGN);
        }
    }

    unsafe fn realloc(&mut self, content: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller got the pointer from this heap.
        let Some(block) = (unsafe { with_header(content) }) else { return self.alloc(size) };
        // SAFETY: as above, with the same alignment.
        self.allocate_with(size, |blocks| unsafe { blocks.reallocate(block, layout(size)?) })
    }

    unsafe fn usable_size(content: *mut u8) -> usize {
        // SAFETY: the caller got the pointer from a heap, which wrote the header.
        unsafe { with_header(content).map_or(0, |block| block.cast::<usize>().read()) }
    }
}
