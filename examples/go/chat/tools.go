package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The functions that a model may call here. --tools declares them.

// "A + B", "A - B" or "A * B", of whole numbers.
func calculate(expression string) string {
	const mistake = "error: expected two whole numbers with +, - or * between them"
	parts := strings.Fields(expression)
	if len(parts) != 3 {
		return mistake
	}
	a, err := strconv.ParseInt(parts[0], 10, 32)
	b, err2 := strconv.ParseInt(parts[2], 10, 32)
	results := map[string]int64{"+": a + b, "-": a - b, "*": a * b}
	result, known := results[parts[1]]
	if err != nil || err2 != nil || !known {
		return mistake
	}
	return strconv.FormatInt(result, 10)
}

// The names in the current folder that contain the word, as JSON.
func searchFiles(word string) string {
	entries, err := os.ReadDir(".")
	if err != nil {
		return "error: " + err.Error()
	}
	var found []string
	for _, entry := range entries {
		if name := entry.Name(); utf8.ValidString(name) && strings.Contains(name, word) {
			quoted, _ := json.Marshal(name)
			found = append(found, string(quoted))
		}
	}
	return "[" + strings.Join(found, ", ") + "]"
}

// The result of a call, or what was wrong with it.
func runTool(name, arguments string) string {
	var values struct{ Expression, Word *string }
	if err := json.Unmarshal([]byte(arguments), &values); err != nil {
		return "error: " + err.Error()
	}
	switch {
	case name == "calculate" && values.Expression != nil:
		return calculate(*values.Expression)
	case name == "search_files" && values.Word != nil:
		return searchFiles(*values.Word)
	case name == "calculate" || name == "search_files":
		return "error: an argument is missing"
	}
	return "error: there is no such function"
}
