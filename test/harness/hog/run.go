package hog

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Variable selects the hog: its value is a script of commands separated by semicolons, executed
// before standard input is read.
const Variable = "PLIMSOLL_HOG"

// RunIfSet turns the process into a hog, and never returns, if [Variable] is set.
func RunIfSet() {
	script, set := os.LookupEnv(Variable)
	if !set {
		return
	}
	os.Exit(run(script, os.Stdin, os.Stdout))
}

// process is the state of this hog.
type process struct {
	out     io.Writer
	regions [][]byte
	term    chan os.Signal
}

func run(script string, in io.Reader, out io.Writer) int {
	p := &process{out: out, term: make(chan os.Signal, 1)}
	signal.Ignore(syscall.SIGINT)  // Ctrl-C is for the driver, which ends its hogs itself
	signal.Ignore(syscall.SIGCHLD) // its children leave no zombies
	fmt.Fprintf(out, "ready pid=%d\n", os.Getpid())
	for line := range strings.SplitSeq(script, ";") {
		p.execute(line)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		p.execute(lines.Text())
	}
	return 0
}

// execute executes one command and replies "done COMMAND in TIME" or "failed COMMAND: why".
func (p *process) execute(line string) {
	line = strings.TrimSpace(line)
	if line == "" {
		return
	}
	begin := time.Now()
	c, err := parse(line)
	if err == nil {
		err = p.do(c)
	}
	if err != nil {
		fmt.Fprintf(p.out, "failed %s: %v\n", line, err)
		return
	}
	fmt.Fprintf(p.out, "done %s in %v\n", line, time.Since(begin))
}

func (p *process) do(c command) error {
	switch c.verb {
	case "fill":
		return p.fill(c.size, evenPace(c.rate))
	case "release":
		return p.release()
	case "dip":
		return p.dip(c)
	case "cache":
		return stream(c)
	case "keep":
		return keep(c)
	case "random":
		return random(c)
	case "unpack":
		return unpack(c)
	case "tmpfs":
		return p.tmpfs(c)
	case "jvm":
		return p.jvm(c)
	case "thrash":
		return thrash(c)
	case "fork":
		return spread(c.count)
	case "daemons":
		return daemons(c.count)
	case "crowd":
		return crowd(c.count)
	case "chain":
		return chain(c.count)
	case "threads":
		return threads(c.count)
	case "spin":
		for end := time.Now().Add(c.duration); time.Now().Before(end); {
		}
		return nil
	case "term":
		return p.onTerm(c)
	case "hold":
		fmt.Fprintln(p.out, "done hold in 0s")
		select {}
	case "exit":
		fmt.Fprintf(p.out, "done exit %d in 0s\n", c.count)
		os.Exit(c.count)
	}
	return fmt.Errorf("unknown command %q", c.verb)
}

// onTerm sets the effect of SIGTERM: none, or exit after a delay.
func (p *process) onTerm(c command) error {
	switch c.word {
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
	case "exit":
		signal.Reset(syscall.SIGTERM)
	case "after":
		signal.Notify(p.term, syscall.SIGTERM)
		go func() {
			<-p.term
			time.Sleep(c.duration)
			os.Exit(0)
		}()
	}
	return nil
}
