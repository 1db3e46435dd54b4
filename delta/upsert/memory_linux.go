package upsert

import "syscall"

// hugeFrom is the size from which pages of 2 MiB are asked for: a look-up then waits
// less often for the address of its page.
const hugeFrom = 2 << 20

func mapBytes(size int) ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err == nil && size >= hugeFrom {
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) // where the system has none it goes without
	}
	return b, err
}

func unmapBytes(b []byte) { _ = syscall.Munmap(b) } // it fails for what was not mapped alone
