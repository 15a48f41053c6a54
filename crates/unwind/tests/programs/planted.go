// As planted.c, in Go: no .eh_frame, but frame pointers and .debug_frame.
package main

import (
	"fmt"
	"syscall"
)

//go:noinline
func blockRead() int {
	var bytes [64]byte
	n, _ := syscall.Read(0, bytes[:1])
	return n
}

//go:noinline
func archiveScan(level int) int {
	if level > 0 {
		return archiveScan(level-1) + 1
	}
	return blockRead() + 1
}

func main() {
	fmt.Println("ready")
	fmt.Println(archiveScan(3))
}
