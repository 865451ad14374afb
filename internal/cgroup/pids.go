package cgroup

// PIDUsage is the number of tasks (threads, not processes) in a cgroup and all below it, and
// its limit.
type PIDUsage struct {
	Current uint64
	Max     uint64 // undefined unless Limited
	Limited bool
}

// PIDs reads the pids controller's files of one cgroup.
type PIDs struct {
	current, max File
	buf          *Buffer
}

// OpenPIDs opens the pids controller's files of the cgroup at path, to be read through the
// buffer. Returns a [*ReadError] if they can not be opened, as on the root of either version: the
// machine's numbers are in /proc.
func OpenPIDs(h Hierarchy, path string, buf *Buffer) (*PIDs, error) {
	dir := h.Dir("pids", path) + "/"
	p := &PIDs{
		current: File{path: dir + "pids.current", fd: -1},
		max:     File{path: dir + "pids.max", fd: -1},
		buf:     buf,
	}
	for _, f := range []*File{&p.current, &p.max} {
		if errno := f.open(); errno != 0 {
			p.Close()
			return nil, f.failed("open", errno)
		}
	}
	return p, nil
}

// Close closes the files. A later read opens them again.
func (p *PIDs) Close() {
	p.current.Close()
	p.max.Close()
}

// Read reads the number of tasks and its limit: two preads, about 1 µs. Returns an error if a
// file is unreadable or malformed.
func (p *PIDs) Read() (PIDUsage, error) {
	text, err := p.current.Read(p.buf)
	if err != nil {
		return PIDUsage{}, err
	}
	current, err := ParseSingleValue(text)
	if err != nil {
		return PIDUsage{}, malformed(&p.current, err)
	}
	limit, limited, err := p.max.readLimit(p.buf)
	if err != nil {
		return PIDUsage{}, err
	}
	return PIDUsage{Current: current, Max: limit, Limited: limited}, nil
}
