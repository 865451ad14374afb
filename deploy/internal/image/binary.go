package image

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

// Binary is the program for one architecture.
type Binary struct {
	Arch string // as GOARCH names it
	Text []byte
	Info *debug.BuildInfo
}

// ReadBinary reads a binary. Returns an error if it would not run in an empty image: a program for
// another machine, or one that needs shared libraries.
func ReadBinary(arch, path string) (*Binary, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the binary for %s: %w", arch, err)
	}
	b := &Binary{Arch: arch, Text: text}
	if b.Info, err = buildinfo.Read(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("read what %s is made of: %w: build it with go build", path, err)
	}
	if found := b.setting("GOOS") + "/" + b.setting("GOARCH"); found != "linux/"+arch {
		return nil, fmt.Errorf("%s is a program for %s, not for linux/%s", path, found, arch)
	}
	if err := static(text); err != nil {
		return nil, fmt.Errorf("%s: %w: build it with CGO_ENABLED=0", path, err)
	}
	return b, nil
}

// setting returns a setting of the build, empty if it was not set.
func (b *Binary) setting(key string) string {
	for _, s := range b.Info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func static(text []byte) error {
	file, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return err
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it needs a dynamic linker, and the image has none")
		}
	}
	return nil
}
