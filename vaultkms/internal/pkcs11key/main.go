//go:build cgo

// Command pkcs11key is the program of an exec: key in a PKCS#11 token, such as an
// HSM. It wraps with an AES key, which never leaves the token:
//
//	exec:pkcs11key MODULE TOKEN KEY
//
// MODULE is the library of the HSM's vendor, TOKEN and KEY are labels, and the
// variable PIN has the user's PIN. The tests of package vaultkms run it with
// SoftHSM2.
package main

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/miekg/pkcs11"
)

type request struct {
	ID   int64  `json:"id"`
	Op   string `json:"op"`
	Data []byte `json:"data"`
	AAD  []byte `json:"aad"`
}

type response struct {
	ID     int64  `json:"id"`
	Data   []byte `json:"data,omitempty"`
	Error  string `json:"error,omitempty"`
	Denied bool   `json:"denied,omitempty"`
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: pkcs11key MODULE TOKEN KEY")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "pkcs11key:", err)
		os.Exit(1)
	}
}

// serve responds to requests until the standard input ends.
func serve(module, token, key string) error {
	p := pkcs11.New(module)
	if p == nil {
		return errors.New("the PKCS#11 module cannot be loaded")
	}
	if err := p.Initialize(); err != nil {
		return err
	}
	t := &hsm{p, token, key, os.Getenv("PIN")}
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var in request
		if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
			return err
		}
		r := response{ID: in.ID}
		data, err := t.do(in)
		if err != nil {
			r.Error, r.Denied = err.Error(), denied(err)
		} else {
			r.Data = data
		}
		if failed := out.Encode(r); failed != nil || errors.Is(err, errNoToken) {
			return errors.Join(failed, err)
		}
	}
	return lines.Err()
}

// hsm is a key in a token.
type hsm struct {
	*pkcs11.Ctx
	token, key, pin string
}

// do runs a request in a separate session, so that it fails as soon as the key
// was destroyed or the PIN was changed.
func (t *hsm) do(r request) ([]byte, error) {
	slot, err := t.slot()
	if err != nil {
		return nil, err
	}
	session, err := t.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.CloseSession(session) }() // it also logs out
	if err := t.Login(session, pkcs11.CKU_USER, t.pin); err != nil {
		return nil, err
	}
	key, err := t.find(session)
	if err != nil {
		return nil, err
	}
	if r.Op == "encrypt" {
		return t.encrypt(session, key, r)
	}
	return t.decrypt(session, key, r)
}

// errNoToken ends the program, because a module may know only the tokens that it could
// read when it was initialized. SoftHSM2 misses one whose file another process is
// writing.
var errNoToken = errors.New("the token is not there")

func (t *hsm) slot() (uint, error) {
	slots, err := t.GetSlotList(true)
	if err != nil {
		return 0, err
	}
	for _, slot := range slots {
		if info, err := t.GetTokenInfo(slot); err == nil && info.Label == t.token {
			return slot, nil
		}
	}
	return 0, errNoToken
}

var errNoKey = errors.New("the token has no such key")

func (t *hsm) find(session pkcs11.SessionHandle) (pkcs11.ObjectHandle, error) {
	template := []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_SECRET_KEY), pkcs11.NewAttribute(pkcs11.CKA_LABEL, t.key),
	}
	if err := t.FindObjectsInit(session, template); err != nil {
		return 0, err
	}
	keys, _, err := t.FindObjects(session, 1)
	if err := errors.Join(err, t.FindObjectsFinal(session)); err != nil {
		return 0, err
	}
	if len(keys) == 0 {
		return 0, errNoKey
	}
	return keys[0], nil
}

const (
	nonceSize = 12
	tagBits   = 128
)

// encrypt returns the nonce and the ciphertext.
func (t *hsm) encrypt(session pkcs11.SessionHandle, key pkcs11.ObjectHandle, r request) ([]byte, error) {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // it never fails
	params := pkcs11.NewGCMParams(nonce, r.AAD, tagBits)
	defer params.Free()
	if err := t.EncryptInit(session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)}, key); err != nil {
		return nil, err
	}
	sealed, err := t.Encrypt(session, r.Data)
	return append(nonce, sealed...), err
}

func (t *hsm) decrypt(session pkcs11.SessionHandle, key pkcs11.ObjectHandle, r request) ([]byte, error) {
	if len(r.Data) < nonceSize {
		return nil, errors.New("the ciphertext is too short")
	}
	params := pkcs11.NewGCMParams(r.Data[:nonceSize], r.AAD, tagBits)
	defer params.Free()
	if err := t.DecryptInit(session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)}, key); err != nil {
		return nil, err
	}
	return t.Decrypt(session, r.Data[nonceSize:])
}

// denied reports whether the key is missing, or may not be used with this PIN.
func denied(err error) bool {
	if errors.Is(err, errNoKey) {
		return true
	}
	for _, code := range []pkcs11.Error{
		pkcs11.CKR_PIN_INCORRECT, pkcs11.CKR_PIN_LOCKED, pkcs11.CKR_PIN_EXPIRED, pkcs11.CKR_KEY_HANDLE_INVALID, pkcs11.CKR_KEY_FUNCTION_NOT_PERMITTED,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
