package report

// limits are what readers must know before they compare figures.
var limits = []string{
	"The authors of one contestant chose the incidents, the thresholds and the rules. Other incidents may rank contestants differently.",
	"A node that is a cgroup has no swap, and neither has a machine unless its description names some. Programs that act on pressure stall information recommend swap, and may do better with it.",
	"All contestants get one threshold of available memory. Programs that act on stalls only have no such setting, and are judged by it too.",
	"If n runs were all won, up to about 3/n of further runs may still be lost (95 % confidence). Small differences are noise.",
	"Figures are comparable within one section. Totals compare two contestants only if both ran in the same incidents.",
	"If the kernel alone has invalid runs in an incident in which memory should run out, that incident is too slow for the machine. Disregard its row.",
	"A contestant with more than 12 s between two checks may end further pods later than any run shows.",
	"The processor time and the resident set of a kubelet include the API server and the container runtime that connect it to the pods.",
	"Only a kubelet has an API server, a small one. A program that reports a pod before the kill is measured without that wait.",
	"The neighbour is judged until 10 s after the crossing, and to the end where there is none. Every run lasts that long.",
	"In some incidents in which no pod may end, less than the threshold is available for a moment. An end at that moment is judged as wrong.",
	"Invalid and failed runs have no verdict. A contestant with many of them is not measured well.",
	"Pods are processes in cgroups. A container runtime, a scheduler, and services that lose a pod for longer are not part of the figures.",
	"The referee judges its own pods and daemons. Ends of other processes of the machine count only if the kernel killed them.",
	"Processes of most incidents end at once on SIGTERM. Programs that send it first lose time with pods that do not.",
	"Pressure on disks and on PIDs is not measured.",
}
