module skerry.dev/hack/tools/bus-tokens

go 1.26.0

require github.com/nats-io/jwt/v2 v2.8.2

require (
	github.com/nats-io/nkeys v0.4.16 // indirect
	golang.org/x/crypto v0.52.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
)
