package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"plimsoll.dev/plimsoll/internal/live"
	"plimsoll.dev/plimsoll/internal/live/screen"
)

// page is the number of pods that a page key scrolls.
const page = 10

// showTerminal shows the states of a follower on a terminal until the user ends it. It restores the terminal in any case.
func showTerminal(ctx context.Context, f *follower, streams genericiooptions.IOStreams) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var program *tea.Program
	v := &view{now: time.Now, colour: hasColour(os.Getenv)}
	// Bubble Tea restores the terminal after a panic of a command too.
	v.follow = func() tea.Msg {
		err := f.follow(ctx, func(s *live.State) error {
			program.Send(stateMsg{s})
			return nil
		}, func(err error, wait time.Duration) { program.Send(lostMsg{err, wait}) })
		return endedMsg{err}
	}
	program = tea.NewProgram(v, tea.WithContext(ctx), tea.WithInput(streams.In), tea.WithOutput(streams.Out))
	_, err := program.Run()
	switch {
	case v.err != nil:
		return v.err
	case errors.Is(err, tea.ErrInterrupted), errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return fmt.Errorf("show the state of node %s on the terminal: %w", f.agent.Node, err)
	}
	return nil
}

// hasColour reports whether a terminal gets colours (https://no-color.org).
func hasColour(env func(string) string) bool { return env("NO_COLOR") == "" }

// Messages of the follower.
type (
	stateMsg struct{ state *live.State }
	lostMsg  struct {
		err  error
		wait time.Duration
	}
	endedMsg struct{ err error }
	tickMsg  struct{}
)

// view is the model of the terminal. Its text is that of a [screen.Screen].
type view struct {
	now    func() time.Time
	follow tea.Cmd
	colour bool

	screen   screen.Screen
	state    *live.State
	received time.Time // of the state
	lost     error     // of the connection; nil: it is there
	lostAt   time.Time
	retryAt  time.Time
	err      error // that ended the view
}

// Init implements tea.Model.
func (v *view) Init() tea.Cmd { return tea.Batch(v.follow, tick()) }

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// Update implements tea.Model.
func (v *view) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		v.screen.Width, v.screen.Height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return v, v.press(msg.String())
	case stateMsg:
		v.state, v.received, v.lost = msg.state, v.now(), nil
	case lostMsg:
		if v.lost == nil {
			v.lostAt = v.now()
		}
		v.lost, v.retryAt = msg.err, v.now().Add(msg.wait)
	case endedMsg:
		v.err = msg.err
		return v, tea.Quit
	case tickMsg:
		return v, tick()
	}
	return v, nil
}

// press handles a key.
func (v *view) press(key string) tea.Cmd {
	s := &v.screen
	s.Offset = min(s.Offset, v.current().MaxOffset()) // the terminal may have grown
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "s":
		s.Sort, s.Offset = s.Sort.Next(), 0
	case "?":
		s.Help = !s.Help
	case "esc":
		s.Help = false
	case "up", "k":
		s.Offset--
	case "down", "j":
		s.Offset++
	case "pgup":
		s.Offset -= page
	case "pgdown":
		s.Offset += page
	case "home":
		s.Offset = 0
	case "end":
		s.Offset = v.current().MaxOffset()
	}
	s.Offset = max(min(s.Offset, v.current().MaxOffset()), 0)
	return nil
}

// current returns the present screen.
func (v *view) current() *screen.Screen {
	s := v.screen
	s.Colour, s.Keys = v.colour, true
	if v.state != nil {
		state := *v.state
		state.Time = state.Time.Add(v.now().Sub(v.received)) // ages go on
		s.State = &state
	}
	if v.lost != nil {
		s.Message = v.lostText()
	}
	return &s
}

// maxLost bounds the cause of a lost connection, in bytes.
const maxLost = 300

// lostText says since when there is no connection, why, and when the next attempt is.
func (v *view) lostText() string {
	now := v.now()
	text := fmt.Sprintf("Connection lost %s ago", max(now.Sub(v.lostAt), 0).Round(time.Second))
	if wait := v.retryAt.Sub(now); wait > 0 {
		text += fmt.Sprintf(", next attempt in %s", wait.Round(time.Second))
	} else {
		text += ", connecting"
	}
	if v.state != nil {
		text += fmt.Sprintf(", the state is %s old", max(now.Sub(v.received), 0).Round(time.Second))
	}
	return text + ": " + live.Printable(strings.Join(strings.Fields(v.lost.Error()), " "), maxLost)
}

// View implements tea.Model.
func (v *view) View() tea.View {
	shown := tea.NewView(v.current().Text())
	shown.AltScreen = true
	return shown
}
