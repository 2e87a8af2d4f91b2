package main

import (
	"io"
	"os"
	"strconv"
)

// lifelineVariable names the inherited file descriptor. Unset, the program lives its own life.
const lifelineVariable = "MODELYARD_LIFELINE_FD"

// holdLifeline ends this process when the process that started it is gone.
//
// The parent keeps the writing end of a pipe and hands us the reading end. The kernel closes the writing end
// however the parent dies, kill -9 included, so end-of-file means that nobody is left to stop us.
func holdLifeline() {
	fd, err := strconv.Atoi(os.Getenv(lifelineVariable))
	if err != nil {
		return
	}
	os.Unsetenv(lifelineVariable)
	pipe := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		os.Exit(0)
	}()
}
