// kimi-chat prints one reply of a model: the one-shot form of the C program of this name, in Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"kimi"
)

// The exit statuses, as --help states them.
const (
	exitError     = 1
	exitUsage     = 2
	exitLength    = 3
	exitCancelled = 130
)

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, errHelp) {
		os.Stdout.WriteString(help)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kimi-chat:", err)
		os.Exit(exitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	go func() { // the second Ctrl-C ends the program
		<-ctx.Done()
		stop()
	}()
	finish, err := converse(ctx, o)
	switch {
	case finish == kimi.FinishCancelled:
		os.Exit(exitCancelled)
	case err != nil:
		fmt.Fprintln(os.Stderr, "kimi-chat:", err)
		os.Exit(exitError)
	case finish == kimi.FinishLength:
		os.Exit(exitLength)
	}
}
