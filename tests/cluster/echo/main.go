// A program for test pods: it serves requests, sends requests, exits with a code, or allocates memory.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fail("echo job CODE | serve ADDRESS NAME | get URL.. | alloc MIB")
	}
	switch os.Args[1] {
	case "job":
		job(number(os.Args[2]))
	case "serve":
		serve(os.Args[2], os.Args[3])
	case "get":
		get(os.Args[2:])
	case "alloc":
		alloc(number(os.Args[2]))
	}
}

func job(code int) {
	host, _ := os.Hostname()
	fmt.Println("job ran on", host, "uid", os.Getuid())
	os.Exit(code)
}

func serve(address, name string) {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "from=%s host=%s path=%s peer=%s xff=%s\n", name, r.Host, r.URL.Path, r.RemoteAddr,
			r.Header.Get("X-Forwarded-For"))
	})
	fail(http.ListenAndServe(address, nil))
}

func get(urls []string) {
	client := http.Client{Timeout: 3 * time.Second}
	for _, url := range urls {
		answer, err := client.Get(url)
		if err != nil {
			fail(err)
		}
		body, _ := io.ReadAll(answer.Body)
		fmt.Println(answer.StatusCode, string(body))
	}
}

// alloc allocates and touches memory, to test memory limits.
func alloc(mib int) {
	bytes := make([]byte, mib<<20)
	for i := range bytes {
		bytes[i] = 1
	}
	fmt.Println("allocated", len(bytes))
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		fail(err)
	}
	return value
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}
