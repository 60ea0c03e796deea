// Reads tokens of the message bus with github.com/nats-io/jwt, for tests: what our encoder writes is read by code that is not ours.
//
// Standard input is a JSON array of questions, standard output an array with their answers.
package main

import (
	// Time zones of a machine without zone data.
	_ "time/tzdata"

	"encoding/json"
	"fmt"
	"os"

	"github.com/nats-io/jwt/v2"
)

type question struct {
	// A token, or a file of credentials.
	Token       string `json:"token,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	// The token that has to have signed it.
	Issuer string `json:"issuer,omitempty"`
}

type answer struct {
	// Why the text cannot be read at all.
	Error string `json:"error,omitempty"`
	// The claims as the library writes them again.
	Claims json.RawMessage `json:"claims,omitempty"`
	// What the library calls wrong: an error, or a warning.
	Issues   []string `json:"issues"`
	IsSigned bool     `json:"isSigned"`
	// Public key of the seed in credentials.
	PublicKey string `json:"publicKey,omitempty"`
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	answers := make([]answer, 0, len(questions))
	for _, one := range questions {
		read, err := read(one)
		if err != nil {
			read.Error = err.Error()
		}
		answers = append(answers, read)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(one question) (answer, error) {
	result := answer{Issues: []string{}}
	token := one.Token
	if one.Credentials != "" {
		text, err := jwt.ParseDecoratedJWT([]byte(one.Credentials))
		if err != nil {
			return result, err
		}
		pair, err := jwt.ParseDecoratedUserNKey([]byte(one.Credentials))
		if err != nil {
			return result, err
		}
		if result.PublicKey, err = pair.PublicKey(); err != nil {
			return result, err
		}
		token = text
	}
	claims, err := jwt.Decode(token)
	if err != nil {
		return result, err
	}
	if result.Claims, err = json.Marshal(claims); err != nil {
		return result, err
	}
	found := jwt.CreateValidationResults()
	claims.Validate(found)
	for _, issue := range found.Issues {
		result.Issues = append(result.Issues, issue.Description)
	}
	if one.Issuer == "" {
		return result, nil
	}
	issuer, err := jwt.Decode(one.Issuer)
	if err != nil {
		return result, err
	}
	switch by := issuer.(type) {
	case *jwt.OperatorClaims:
		result.IsSigned = by.DidSign(claims)
	case *jwt.AccountClaims:
		result.IsSigned = by.DidSign(claims)
	}
	return result, nil
}
