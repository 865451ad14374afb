package app

import (
	"context"
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
)

// filePeriod is how often the directory of the file is looked for, to be notified
// of what happens there. Whatever is missed is found by the next regular look, and
// before anything is done that can not be undone.
const disarmFilePeriod = time.Minute

// watchDisarmFile has changed called whenever something happens in the file's directory,
// until ctx ends.
func watchDisarmFile(ctx context.Context, f disarmfile.File, changed func()) {
	if f == "" {
		return
	}
	repeat(ctx, disarmFilePeriod, func() bool {
		followDisarmFile(ctx, f, changed)
		return true
	})
}

// followDisarmFile returns when the directory is not there (any more), or ctx ends.
func followDisarmFile(ctx context.Context, f disarmfile.File, changed func()) {
	dir := filepath.Dir(string(f))
	w, err := watchDirectory(dir)
	if err != nil {
		return
	}
	defer w.Close()
	changed() // while nobody watched
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Errors:
			return
		case e := <-w.Events:
			switch e.Name {
			case string(f):
				changed()
			case dir: // removed, or another was put in its place
				return
			}
		}
	}
}
