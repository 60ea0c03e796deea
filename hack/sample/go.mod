module skerry.dev/hack/sample

go 1.22
