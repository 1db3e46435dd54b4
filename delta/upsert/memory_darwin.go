package upsert

import "syscall"

func mapBytes(size int) ([]byte, error) {
	return syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

func unmapBytes(b []byte) { _ = syscall.Munmap(b) } // it fails for what was not mapped alone
