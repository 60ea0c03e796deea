package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// see prints, as one line of JSON, what the process is given; each path named is also tried for writing.
func see(paths []string) error {
	workingDirectory, _ := os.Getwd()
	hostname, _ := os.Hostname()
	groups, _ := os.Getgroups()
	folders := map[string]any{}
	for _, path := range paths {
		folders[path] = folder(path)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"arguments":        os.Args,
		"env":              environment(),
		"workingDirectory": workingDirectory,
		"hostname":         hostname,
		"uid":              os.Getuid(),
		"gid":              os.Getgid(),
		"groups":           groups,
		"capabilities":     capabilities(),
		"cpus":             field("/proc/self/status", "Cpus_allowed_list:"),
		"limits":           limits(),
		"sysctls":          sysctls(),
		"devices":          devices("/dev"),
		"hosts":            text("/etc/hosts"),
		"namespaces":       namespaces(),
		"controls":         controls(),
		"folders":          folders,
	})
}

func environment() map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		key, value, _ := strings.Cut(pair, "=")
		env[key] = value
	}
	return env
}

func text(path string) string {
	content, _ := os.ReadFile(path)
	return strings.TrimSpace(string(content))
}

// field is the rest of the line of a file that begins with a word.
func field(path string, name string) string {
	for _, line := range strings.Split(text(path), "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// The names of capabilities by their number; capability.h of the kernel.
var capabilityNames = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
	LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
	SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
	CHECKPOINT_RESTORE`)

// capabilities are those that the process may ever have.
func capabilities() []string {
	mask, _ := strconv.ParseUint(field("/proc/self/status", "CapBnd:"), 16, 64)
	names := []string{}
	for number, name := range capabilityNames {
		if mask>>number&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// limits are soft and hard, in the kernel's own words.
func limits() map[string][]string {
	found := map[string][]string{}
	for _, line := range strings.Split(text("/proc/self/limits"), "\n")[1:] {
		name := strings.TrimSpace(line[:26])
		found[name] = strings.Fields(line[26:])[:2]
	}
	return found
}

func sysctls() map[string]string {
	found := map[string]string{}
	for _, pattern := range []string{"/proc/sys/net/ipv4/ip_*", "/proc/sys/net/ipv4/ping_*", "/proc/sys/net/ipv4/tcp_*", "/proc/sys/kernel/shm*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			key := strings.ReplaceAll(strings.TrimPrefix(path, "/proc/sys/"), "/", ".")
			found[key] = strings.Join(strings.Fields(text(path)), " ")
		}
	}
	return found
}

// devices are those of memory (major 1) in a folder, as "c major:minor", and whether they open for reading and for
// writing. Others are left alone, since opening some of them has consequences.
func devices(folder string) map[string]string {
	found := map[string]string{}
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode()&os.ModeCharDevice == 0 {
			continue
		}
		number := info.Sys().(*syscall.Stat_t).Rdev
		if major := number >> 8 & 0xfff; major == 1 {
			path := filepath.Join(folder, entry.Name())
			access := opens(path, os.O_RDONLY, "r") + opens(path, os.O_WRONLY, "w")
			found[path] = fmt.Sprintf("c %d:%d %s", major, number&0xff, access)
		}
	}
	return found
}

func opens(path string, how int, word string) string {
	file, err := os.OpenFile(path, how|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	file.Close()
	return word
}

func namespaces() map[string]string {
	found := map[string]string{}
	for _, name := range []string{"pid", "ipc", "net"} {
		found[name], _ = os.Readlink("/proc/self/ns/" + name)
	}
	return found
}

// controls are the limits of the control group, from whichever version of the kernel's interface is there.
func controls() map[string]string {
	found := map[string]string{}
	for _, path := range []string{
		"memory/memory.limit_in_bytes", "memory/memory.soft_limit_in_bytes", "memory/memory.memsw.limit_in_bytes",
		"cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us",
		"memory.max", "memory.low", "memory.swap.max", "cpu.max",
	} {
		if content, err := os.ReadFile("/sys/fs/cgroup/" + path); err == nil {
			found[filepath.Base(path)] = strings.TrimSpace(string(content))
		}
	}
	return found
}

// folder returns the type and size of the file system of a path, the entries of the path, and whether a file can then be
// written there.
func folder(path string) map[string]any {
	found := map[string]any{"type": mountType(path)}
	if info, err := os.Stat(path); err == nil {
		mode := info.Mode()
		bits := uint32(mode.Perm())
		if mode&os.ModeSticky != 0 {
			bits |= 0o1000
		}
		found["mode"] = fmt.Sprintf("%o", bits)
	}
	var size syscall.Statfs_t
	if syscall.Statfs(path, &size) == nil {
		found["bytes"] = size.Blocks * uint64(size.Bsize)
	}
	names := []string{}
	entries, _ := os.ReadDir(path)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	found["names"] = names
	found["writable"] = os.WriteFile(filepath.Join(path, ".written"), []byte("written"), 0o644) == nil
	return found
}

// mountType is the type of the file system that is mounted at exactly this path, or nothing.
func mountType(path string) string {
	kind := ""
	for _, line := range strings.Split(text("/proc/self/mounts"), "\n") {
		if words := strings.Fields(line); len(words) > 2 && words[1] == path {
			kind = words[2]
		}
	}
	return kind
}
