//go:build unix

package demo

import "syscall"

// ownGroup makes a process the first of a group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
