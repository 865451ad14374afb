package tune

// figures are the numbers by which points are compared: smaller ones are better.
func (t *Totals) figures(byTime bool) [4]float64 {
	f := [4]float64{float64(t.Evictions.Lower), float64(t.Evictions.Upper), float64(t.ExhaustedNodes.Lower), float64(t.ExhaustedNodes.Upper)}
	if byTime {
		f[2], f[3] = t.ExhaustedSeconds.Lower, t.ExhaustedSeconds.Upper
	}
	return f
}

// dominates reports whether figures are at least as good as others in each place, and better in one.
func dominates(a, b [4]float64) bool {
	better := false
	for i := range a {
		if a[i] > b[i] {
			return false
		}
		better = better || a[i] < b[i]
	}
	return better
}

// markFront marks the points that no other one dominates. Equal points are all marked.
func markFront(points []Point, byTime bool) {
	for i := range points {
		of := points[i].figures(byTime)
		points[i].Front = true
		for j := range points {
			if dominates(points[j].figures(byTime), of) {
				points[i].Front = false
			}
		}
	}
}
