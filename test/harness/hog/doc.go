// Package hog makes a test or demo binary its own misbehaving workload: started
// again with an environment variable, it becomes a process that fills memory at
// a given rate, dips, streams page cache, unpacks, thrashes, forks, or ignores SIGTERM,
// steered by lines on its standard input.
//
// Duties and invariants:
//
//   - [RunIfAsked] is the first statement of main or TestMain. In a process
//     without the variable it does nothing.
//   - Memory is mapped and touched page by page, without huge pages and out of
//     the garbage collector's sight: what is asked for is what is charged.
//   - Pacing is against absolute deadlines in steps of about a millisecond, so
//     the rate neither drifts nor comes in bursts larger than what a stall owes.
//     Dips, tmpfs and jvm never are faster than their rate: they are late after a
//     stall, and stay so.
//   - Every command is answered by one line when it is done, so that a driver
//     waits for the thing itself and never sleeps.
//   - A hog ends when its standard input does, except in hold: it does not
//     outlive its driver. It limits nothing itself: run it inside a memory
//     cgroup with a limit (package sandbox).
//
// Commands, one per line; sizes are 64KiB, 300MiB, 1GiB or bytes:
//
//	fill SIZE [at SIZE/s]          grow by SIZE, at the rate or as fast as it goes
//	release                        give everything back (munmap)
//	dip SIZE [at SIZE/s] for TIME  grow, hold, give back
//	cache SIZE in DIR [at SIZE/s] [fsync] [drop]
//	                               write and read a file; fsync it; drop its pages
//	random SIZE in DIR [at SIZE/s] for TIME
//	                               write a file, read and write blocks of it at random, drop it
//	unpack SIZE in DIR [at SIZE/s] write many files of mixed size, fsync them in batches, remove them
//	tmpfs SIZE [at SIZE/s] for TIME
//	                               grow a file in memory, hold, give it back
//	jvm SIZE [at SIZE/s] for TIME  start like a virtual machine with a heap of SIZE, live
//	                               with its collections, and end
//	thrash SIZE in DIR for TIME    read a file larger than the limit again and again
//	fork N                         N processes that wait, each forking half of its share
//	crowd N                        the same, of processes of about 60 KiB each
//	chain N                        a process that forks its successor and ends, N times
//	threads N                      N threads that wait
//	spin for TIME                  burn one CPU
//	term ignore | term after TIME | term exit
//	                               what SIGTERM does; a hog starts with exit
//	hold                           wait to be killed, and read no more commands
//	exit CODE
package hog
