// Sample is the program in the image of `make up` and of the tests: a web server that shows what its container was
// given, and misbehaves on request.
//
//	sample [serve] [flags]   the server, which also echoes datagrams; every flag can come from the environment: -exit-code as EXIT_CODE
//	sample check URL         exits 0 when the URL answers 200: a health check for an image without a shell
//	sample get URL           prints what the URL answers
//	sample cat               copies its input to its output
//	sample print WORDS...    prints its words, one per line
//	sample flood MIB         prints that much text
//	sample see [FOLDERS...]  prints as JSON what its process is given, and whether it can write in these folders
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	command, args := "serve", os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	switch command {
	case "serve":
		serve(args)
	case "check":
		if _, err := get(args); err != nil {
			log.Fatal(err)
		}
	case "get":
		body, err := get(args)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(body)
	case "cat":
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			log.Fatal(err)
		}
	case "print":
		fmt.Println(strings.Join(args, "\n"))
	case "flood":
		mib := 0
		if len(args) == 1 {
			mib, _ = strconv.Atoi(args[0])
		}
		for line := 0; line < mib*1024; line++ {
			fmt.Printf("%08d %s\n", line, strings.Repeat("x", 1014))
		}
	case "see":
		if err := see(args); err != nil {
			log.Fatal(err)
		}
	default:
		log.Fatalf("sample: unknown command %q", command)
	}
}

func serve(args []string) {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	address := flags.String("address", ":8080", "where to listen")
	greeting := flags.String("greeting", "Hello from the edge", "what / answers")
	listenAfter := flags.Duration("listen-after", 0, "how long to wait before listening")
	readyAfter := flags.Duration("ready-after", 0, "how long /healthz answers 503 after that")
	tlsFolder := flags.String("tls", "", "folder with tls.crt and tls.key: HTTPS on :8443 as well, with the files as they are at each connection")
	exitAfter := flags.Duration("exit-after", 0, "end by itself after this time; 0 is never")
	exitCode := flags.Int("exit-code", 0, "the exit code of an end by itself")
	ignoreSignals := flags.Bool("ignore-signals", false, "do not end on SIGTERM")
	stopDelay := flags.Duration("stop-delay", 0, "how long to take for ending on SIGTERM")
	flags.VisitAll(func(f *flag.Flag) {
		name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := os.LookupEnv(name); ok {
			if err := f.Value.Set(value); err != nil {
				log.Fatalf("%s: %v", name, err)
			}
		}
	})
	flags.Parse(args)
	log.Printf("sample started with arguments %q", os.Args[1:])

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	if *exitAfter > 0 {
		time.AfterFunc(*exitAfter, func() {
			log.Printf("sample ends by itself with code %d", *exitCode)
			os.Exit(*exitCode)
		})
	}

	pause(*listenAfter, signals, *ignoreSignals)
	server := &http.Server{Addr: *address, Handler: logged(routes(*greeting, time.Now().Add(*readyAfter)))}
	failed := make(chan error, 2)
	go func() { failed <- server.ListenAndServe() }()
	if *tlsFolder != "" {
		go func() { failed <- serveTLS(*tlsFolder, server.Handler) }()
	}
	go echo(*address)
	log.Printf("sample listens on %s", *address)
	for {
		select {
		case err := <-failed:
			log.Fatal(err)
		case what := <-signals:
			if *ignoreSignals {
				log.Printf("sample ignores %s", what)
				continue
			}
			time.Sleep(*stopDelay)
			server.Shutdown(context.Background())
			log.Printf("sample ends on %s", what)
			return
		}
	}
}

// serveTLS reads the key and its certificate again for each connection.
func serveTLS(folder string, handler http.Handler) error {
	read := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
		return &pair, err
	}
	server := &http.Server{Addr: ":8443", Handler: handler, TLSConfig: &tls.Config{GetCertificate: read}}
	return server.ListenAndServeTLS("", "")
}

// echo sends every datagram back.
func echo(address string) {
	connection, err := net.ListenPacket("udp", address)
	if err != nil {
		log.Print(err)
		return
	}
	buffer := make([]byte, 1500)
	for {
		length, from, err := connection.ReadFrom(buffer)
		if err != nil {
			return
		}
		connection.WriteTo(buffer[:length], from)
	}
}

// pause waits before the server listens; a signal ends the program unless it is to be ignored.
func pause(duration time.Duration, signals <-chan os.Signal, ignore bool) {
	timer := time.NewTimer(duration)
	for {
		select {
		case <-timer.C:
			return
		case <-signals:
			if !ignore {
				os.Exit(0)
			}
		}
	}
}

func routes(greeting string, ready time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, greeting) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if time.Now().Before(ready) {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /env", func(w http.ResponseWriter, r *http.Request) {
		answer(w, environment())
	})
	mux.HandleFunc("GET /process", func(w http.ResponseWriter, r *http.Request) {
		host, _ := os.Hostname()
		folder, _ := os.Getwd()
		answer(w, map[string]any{
			"arguments": os.Args, "hostname": host, "workingDirectory": folder, "pid": os.Getpid(), "uid": os.Getuid(), "gid": os.Getgid(),
		})
	})
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, &http.Request{Method: "GET", URL: r.URL}, filepath.Clean(r.URL.Query().Get("path")))
	})
	mux.HandleFunc("PUT /file", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.WriteFile(r.URL.Query().Get("path"), body, 0o644)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /get", func(w http.ResponseWriter, r *http.Request) {
		body, err := get([]string{r.URL.Query().Get("url")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, body)
	})
	mux.HandleFunc("POST /exit", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.URL.Query().Get("code"))
		log.Printf("sample ends as asked with code %d", code)
		os.Exit(code)
	})
	return mux
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Printf("%s %s", r.Method, r.URL)
		next.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}

func get(args []string) (string, error) {
	if len(args) != 1 {
		return "", errors.New("one URL is needed")
	}
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(args[0])
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), nil
}
