package gcpkms

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	cloudkms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const name = "projects/p/locations/global/keyRings/r/cryptoKeys/k"

// fake is Google Cloud KMS, over gRPC as its client calls it. A ciphertext has the name of
// the key.
type fake struct {
	kmspb.UnimplementedKeyManagementServiceServer
	mu   sync.Mutex
	fail error
}

func (f *fake) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *fake) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail
}

func (f *fake) Encrypt(_ context.Context, r *kmspb.EncryptRequest) (*kmspb.EncryptResponse, error) {
	return &kmspb.EncryptResponse{Name: r.GetName(), Ciphertext: append([]byte(r.GetName()), r.GetPlaintext()...)}, f.err()
}

func (f *fake) Decrypt(_ context.Context, r *kmspb.DecryptRequest) (*kmspb.DecryptResponse, error) {
	plain, ok := bytes.CutPrefix(r.GetCiphertext(), []byte(r.GetName()))
	if !ok {
		return nil, status.Error(codes.InvalidArgument, "Decryption failed")
	}
	return &kmspb.DecryptResponse{Plaintext: plain}, f.err()
}

func TestGoogle(t *testing.T) {
	t.Parallel()
	f := &fake{}
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer()
	kmspb.RegisterKeyManagementServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client := must.Get(cloudkms.NewKeyManagementClient(t.Context(), option.WithEndpoint(listener.Addr().String()),
		option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))))(t)
	t.Cleanup(func() { _ = client.Close() })
	key := must.Get(Open(t.Context(), "gcpkms://"+name, &Options{Client: client}))(t)
	sealed := must.Get(key.Encrypt([]byte("root"), nil))(t)
	foreign := must.Get(must.Get(Open(t.Context(), "gcpkms://"+name+"2", &Options{Client: client}))(t).Encrypt([]byte("root"), nil))(t)
	must.Fail(key.Decrypt(append([]byte("x"), foreign...), nil))(t, "a ciphertext of another key", must.Text("Decryption failed"))
	for _, answer := range []struct {
		code    codes.Code
		message string
		denied  bool
	}{
		{codes.PermissionDenied, "Permission 'cloudkms.cryptoKeyVersions.useToDecrypt' denied", true},
		{codes.FailedPrecondition, "the CryptoKeyVersion is not enabled, current state is: DISABLED.", true},
		{codes.FailedPrecondition, "the CryptoKeyVersion is not enabled, current state is: DESTROYED.", true},
		{codes.NotFound, "CryptoKey not found", true},
		{codes.ResourceExhausted, "Quota exceeded", false},
		{codes.Internal, "Internal error", false},
		{codes.Unauthenticated, "Request had invalid authentication credentials", false},
		{codes.Unavailable, "The service is currently unavailable", false},
	} {
		f.set(status.Error(answer.code, answer.message))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // the client tries some again
		_, err := key.DecryptWithContext(ctx, sealed, nil)
		cancel()
		if err == nil || errors.Is(err, vault.ErrKeyDenied) != answer.denied {
			t.Errorf("%s: %v, want a denial: %v", answer.message, err, answer.denied)
		}
		f.set(nil)
		must.Same(t, "opened", "root", string(must.Get(key.Decrypt(sealed, nil))(t)))
	}
}
