package ranking_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"plimsoll.dev/plimsoll/ranking"
	"plimsoll.dev/plimsoll/signal"
)

// nodeful makes pods as the upstream figures were measured on: two containers,
// requests, four priorities.
func nodeful(n int) []signal.Candidate {
	r := rand.New(rand.NewPCG(7, 7))
	fs := func() signal.FilesystemUsage {
		return signal.FilesystemUsage{Bytes: signal.Of(signal.Bytes(r.Int64N(1 << 30))), Inodes: signal.Of(signal.Inodes(r.Int64N(10000)))}
	}
	pods := make([]signal.Candidate, n)
	for i := range pods {
		name := fmt.Sprintf("pod-%05d", i)
		pods[i] = signal.Candidate{
			Pod: &signal.Pod{
				UID: fmt.Sprintf("%08x-0000-4000-8000-%012d", r.Uint32(), i), Namespace: "default", Name: name, Priority: int32(r.IntN(4) * 1000),
				MemoryRequest:  signal.Quantity{Value: signal.Amount(r.Int64N(1 << 29))},
				StorageRequest: signal.Quantity{Value: signal.Amount(r.Int64N(1 << 30))},
				Containers:     []signal.Container{{Name: "a"}, {Name: "b"}},
				Volumes:        []signal.Volume{{Name: "scratch", Local: true}},
			},
			Usage: &signal.Usage{
				Memory: signal.Of(signal.Bytes(r.Int64N(1 << 30))), Processes: signal.Of(signal.PIDs(r.Int64N(50))),
				Containers: []signal.ContainerUsage{{Name: "a", Rootfs: fs(), Logs: fs()}, {Name: "b", Rootfs: fs(), Logs: fs()}},
				Volumes:    []signal.VolumeUsage{{Name: "scratch", FilesystemUsage: fs()}},
			},
		}
	}
	return pods
}

// BenchmarkRank stands beside the kubelet's: memory 3.7 ms, 31 ms and 513 ms,
// disk 9.8 ms, 79 ms and 1314 ms for 110, 500 and 5000 pods.
func BenchmarkRank(b *testing.B) {
	for _, s := range []signal.Signal{signal.MemoryAvailable, signal.NodefsAvailable} {
		for _, n := range []int{110, 500, 5000} {
			b.Run(fmt.Sprintf("%s/pods=%d", s.Definition().Resource, n), func(b *testing.B) {
				pods := nodeful(n)
				b.ReportAllocs()
				for b.Loop() {
					ranking.Rank(pods, s, everywhere)
				}
			})
		}
	}
}
