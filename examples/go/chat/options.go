package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kimi"
)

const help = `Usage: kimi-chat --deployment FILE (--prompt TEXT | --raw-tokens 1,2,3) [options]

Prints one reply of a Kimi K2.6 model, without its reasoning.

  --deployment FILE   deployment (JSON or binary) or checkpoint folder to load
  --prompt TEXT       what the model replies to
  --system TEXT       system message
  --tools FILE        the model may call the functions that FILE declares, a JSON array as
                      in a chat request. Here are calculate, and search_files in the current
                      folder
  --instant           answer without reasoning first
  --max-tokens N      longest reply in tokens, reasoning included. Default 0: up to the
                      context limit
  --temperature T     0 takes the likeliest token. Default 1.0, with --instant 0.6
  --top-p P           sample from the likeliest tokens that make up P. Default 0.95
  --seed S            reply number i of this run, from 0, uses the seed S + i. Default:
                      a new one
  --raw-tokens 1,2,3  these token ids are the prompt, in place of --prompt and --system,
                      and the reply is printed as ids, its stop token included
  --draft N           tokens drafted per step, 0 to 63, or auto (default)
  --stats             a line of JSON about each reply on stderr
  --help

Exit status: 0 the model ended the reply; 1 an error; 2 a mistake on the command line, or a
text that is not UTF-8; 3 the reply was cut at --max-tokens or the context limit; 130 the reply
was cancelled by Ctrl-C; 141 the reader of stdout went away.
`

type options struct {
	deployment     string
	prompt, system *string // nil: none
	tools          string  // path; empty: none
	tokens         []int32 // of --raw-tokens; nil: the prompt is text
	instant, stats bool
	sampling       kimi.Options
}

var errHelp = flag.ErrHelp

// Options whose values flag does not read by itself.

func text(to **string) func(string) error {
	return func(value string) error {
		if !utf8.ValidString(value) {
			return errors.New("not UTF-8")
		}
		*to = &value
		return nil
	}
}

func integer(to *uint32, max uint32) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n > uint64(max) {
			return fmt.Errorf("must be from 0 to %d", max)
		}
		*to = uint32(n)
		return nil
	}
}

func number(to *float32, max float64) func(string) error {
	return func(value string) error {
		x, err := strconv.ParseFloat(value, 32)
		if err != nil || !(x >= 0 && x <= max) {
			return fmt.Errorf("must be a number from 0 to %g", max)
		}
		*to = float32(x)
		return nil
	}
}

func (o *options) readTokens(list string) error {
	o.tokens = []int32{}
	for _, id := range strings.Split(list, ",") {
		token, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			return errors.New("must be token ids with commas between them")
		}
		o.tokens = append(o.tokens, int32(token))
	}
	return nil
}

func (o *options) readDraft(value string) error {
	if value == "auto" {
		o.sampling.DraftBudget = kimi.Auto
		return nil
	}
	return integer(&o.sampling.DraftBudget, 63)(value)
}

func parse(arguments []string) (*options, error) {
	o := &options{sampling: kimi.DefaultOptions()}
	o.sampling.Temperature = -1                                              // the mode's own
	seed := uint64(rand.New(rand.NewSource(time.Now().UnixNano())).Uint32()) // short enough to type again
	flags := flag.NewFlagSet("kimi-chat", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.deployment, "deployment", "", "")
	flags.Func("prompt", "", text(&o.prompt))
	flags.Func("system", "", text(&o.system))
	flags.StringVar(&o.tools, "tools", "", "")
	flags.BoolVar(&o.instant, "instant", false, "")
	flags.Func("max-tokens", "", integer(&o.sampling.MaxTokens, math.MaxUint32))
	flags.Func("temperature", "", number(&o.sampling.Temperature, math.MaxFloat32))
	flags.Func("top-p", "", number(&o.sampling.TopP, 1))
	flags.Uint64Var(&o.sampling.Seed, "seed", seed, "")
	flags.Func("raw-tokens", "", o.readTokens)
	flags.Func("draft", "", o.readDraft)
	flags.BoolVar(&o.stats, "stats", false, "")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("'%s' is not an option; a prompt goes behind --prompt", flags.Arg(0))
	}
	if o.deployment == "" {
		return nil, errors.New("--deployment is missing; --help explains")
	}
	if o.prompt == nil && o.tokens == nil {
		return nil, errors.New("--prompt is missing; --help explains")
	}
	if o.sampling.Temperature < 0 {
		o.sampling.Temperature = 1
		if o.instant {
			o.sampling.Temperature = 0.6
		}
	}
	return o, nil
}
