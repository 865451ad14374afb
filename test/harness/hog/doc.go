// Package hog makes a test or demo binary its own misbehaving workload. Restarted with an
// environment variable, the binary becomes a process controlled by lines on its standard input.
// It fills memory at a given rate, dips, streams page cache, unpacks, thrashes, forks, or ignores
// SIGTERM.
//
// Duties and invariants:
//
//   - [RunIfSet] is the first statement of main or TestMain. In a process without the variable
//     it does nothing.
//   - Memory is mapped and touched page by page, without huge pages and outside of the garbage
//     collector: the charged size is the requested size.
//   - Rates use absolute deadlines in steps of about a millisecond. A rate does not drift, and
//     its bursts are at most the backlog of a stall. Fills, dips, tmpfs and jvm never exceed their rate:
//     after a stall they remain late.
//   - Every command has one reply line after its completion, so that a driver waits for the
//     event and never sleeps.
//   - A hog exits when its standard input ends, except in hold: it does not outlive its driver.
//     It has no limits of its own: run it inside a memory cgroup with a limit (package sandbox).
//
// Commands, one per line; sizes are 64KiB, 300MiB, 1GiB or bytes:
//
//	fill SIZE [at SIZE/s]          grow by SIZE, at the rate or unlimited
//	release                        release all memory (munmap)
//	dip SIZE [at SIZE/s] for TIME  grow, hold, release
//	cache SIZE in DIR [at SIZE/s] [fsync] [drop]
//	                               write and read a file; fsync it; drop its pages
//	keep SIZE in DIR [at SIZE/s]   write the file DIR/kept, which outlives the hog
//	random SIZE in DIR [at SIZE/s] for TIME
//	                               write a file, read and write blocks of it at random, drop it
//	unpack SIZE in DIR [at SIZE/s] write many files of mixed size, fsync them in batches, remove them
//	tmpfs SIZE [at SIZE/s] for TIME
//	                               grow a file in memory, hold, release it
//	jvm SIZE [at SIZE/s] for TIME  start like a virtual machine with a heap of SIZE, run
//	                               with its collections, and end
//	thrash SIZE in DIR for TIME    rewrite and read a file larger than the limit repeatedly
//	fork N                         N processes that wait, each forking half of its share
//	daemons N                      the same, each in a session of its own
//	crowd N                        the same, of processes of about 60 KiB each
//	chain N                        a process that forks its successor and exits, N times
//	threads N                      N threads that wait
//	spin for TIME                  use one CPU
//	term ignore | term after TIME | term exit
//	                               the effect of SIGTERM; initially exit
//	hold                           wait to be killed, and read no more commands
//	exit CODE
package hog
