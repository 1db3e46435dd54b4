package upsert

import "syscall"

// hugeFrom is the size from which pages of 2 MiB are asked for: a look-up then waits
// less often for the address of its page.
const hugeFrom = 2 << 20

// populateWrite is MADV_POPULATE_WRITE: all pages are made at once, which takes a quarter of the
// time that they take one by one as they are touched. They are all going to be. Linux before
// 5.14 does not know it.
const populateWrite = 23

func mapBytes(size int) ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err == nil && size >= hugeFrom {
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) // where the system has none it goes without
	}
	if err == nil {
		_ = syscall.Madvise(b, populateWrite)
	}
	return b, err
}

func unmapBytes(b []byte) { _ = syscall.Munmap(b) } // it fails for what was not mapped alone
