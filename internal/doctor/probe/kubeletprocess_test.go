package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"plimsoll.dev/plimsoll/internal/doctor"
)

func TestKubeletProcess_Replaced(t *testing.T) {
	procRoot := t.TempDir()
	run := func(pid, name, namespaces string) {
		t.Helper()
		dir := filepath.Join(procRoot, pid)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"comm": name + "\n", "cmdline": name + "\x00", "status": "NSpid:\t" + namespaces + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(pid string) { // an open file of an ended process is empty, or fails
		t.Helper()
		dir := filepath.Join(procRoot, pid)
		if err := os.Truncate(filepath.Join(dir, "comm"), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	find := func() KubeletProcess {
		t.Helper()
		all, err := processes(procRoot)
		if err != nil {
			t.Fatal(err)
		}
		return FindKubelet(procRoot, all)
	}
	run("2", "kthreadd", "2")
	run("5", "kubelet", "5 1") // of a pod

	none := find()
	defer none.Close()
	run("10", "kubelet", "10")
	if none.Replaced() {
		t.Error("a kubelet started where none was found: got replaced")
	}
	first := find()
	defer first.Close()
	for _, step := range []struct {
		about string
		do    func()
		want  bool
	}{
		{"it runs", func() {}, false},
		{"it has ended", func() { end("10") }, false},
		{"a pod's process has its name", func() { run("20", "kubelet", "20 3") }, false},
		{"another one runs", func() { run("30", "kubelet", "30") }, true},
		{"its ID is used again", func() { end("30"); run("10", "kubelet", "10") }, true},
	} {
		if step.do(); first.Replaced() != step.want {
			t.Errorf("%s: got replaced %v, want %v", step.about, !step.want, step.want)
		}
	}
	second := find()
	defer second.Close()
	if second.Replaced() {
		t.Error("found anew: got replaced, want the process itself")
	}
}

func TestKubeletProcess_EndsWithRealProcess(t *testing.T) {
	child := exec.Command("sleep", "infinity")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	k := FindKubelet("/proc", []doctor.Process{{PID: child.Process.Pid, Name: kubeletName}})
	defer k.Close()
	if k.ended() {
		t.Error("it runs: got ended")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // the error is the signal
	if !k.ended() {
		t.Error("it has ended: got not ended")
	}
}
