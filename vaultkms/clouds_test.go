package vaultkms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	cloudkms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"
	"gocloud.dev/secrets"
	"gocloud.dev/secrets/azurekeyvault"
	"gocloud.dev/secrets/gcpkms"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The drivers of Google Cloud and Azure take no endpoint from a URL or from the
// environment, so their tests register openers with clients of the fakes.

const googleKey = "projects/p/locations/global/keyRings/r/cryptoKeys/k"

// fakeGoogle is Google Cloud KMS, over gRPC as its client calls it.
type fakeGoogle struct {
	kmspb.UnimplementedKeyManagementServiceServer
	mu   sync.Mutex
	fail error
}

func (f *fakeGoogle) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *fakeGoogle) check(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil && name != googleKey {
		return status.Error(codes.InvalidArgument, "the name is "+name)
	}
	return f.fail
}

func (f *fakeGoogle) Encrypt(_ context.Context, r *kmspb.EncryptRequest) (*kmspb.EncryptResponse, error) {
	return &kmspb.EncryptResponse{Name: r.GetName(), Ciphertext: append([]byte("google"), r.GetPlaintext()...)}, f.check(r.GetName())
}

func (f *fakeGoogle) Decrypt(_ context.Context, r *kmspb.DecryptRequest) (*kmspb.DecryptResponse, error) {
	return &kmspb.DecryptResponse{Plaintext: []byte(strings.TrimPrefix(string(r.GetCiphertext()), "google"))}, f.check(r.GetName())
}

// googleMux serves the fake, and returns openers for it.
func googleMux(t *testing.T, f *fakeGoogle) *secrets.URLMux {
	t.Helper()
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer()
	kmspb.RegisterKeyManagementServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client := must.Get(cloudkms.NewKeyManagementClient(t.Context(), option.WithEndpoint(listener.Addr().String()),
		option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))))(t)
	t.Cleanup(func() { _ = client.Close() })
	mux := new(secrets.URLMux)
	mux.RegisterKeeper(gcpkms.Scheme, &gcpkms.URLOpener{Client: client})
	return mux
}

func TestGoogle(t *testing.T) {
	t.Parallel()
	f := &fakeGoogle{}
	key, sealed := sealedBy(t, googleMux(t, f), "gcpkms://"+googleKey)
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
		judged(t, key, sealed, answer.message, answer.denied)
		f.set(nil)
		must.Match(t, "a question", ask(t, key, sealed), nil)
	}
}

type azureToken struct{}

func (azureToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestAzure(t *testing.T) {
	t.Parallel()
	f := &fakeCloud{}
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	mux := new(secrets.URLMux)
	mux.RegisterKeeper(azurekeyvault.Scheme, &azurekeyvault.URLOpener{ClientMaker: func(uri string) (*azkeys.Client, error) {
		if uri != "https://acme.vault.azure.net/" {
			t.Errorf("the vault is %s", uri)
		}
		return azkeys.NewClient(server.URL, azureToken{}, &azkeys.ClientOptions{
			DisableChallengeResourceVerification: true,
			ClientOptions:                        policy.ClientOptions{Transport: server.Client(), Retry: policy.RetryOptions{MaxRetries: -1}},
		})
	}})
	key, sealed := sealedBy(t, mux, "azurekeyvault://acme.vault.azure.net/keys/k")
	for _, answer := range []struct {
		status int
		code   string
		denied bool
	}{
		{http.StatusForbidden, "Forbidden", true},
		{http.StatusNotFound, "KeyNotFound", true},
		{http.StatusTooManyRequests, "Throttled", false},
		{http.StatusInternalServerError, "InternalServerError", false},
		{http.StatusServiceUnavailable, "ServiceUnavailable", false},
	} {
		f.fail(answer.status, fmt.Sprintf(`{"error": {"code": %q, "message": "no"}}`, answer.code))
		judged(t, key, sealed, answer.code, answer.denied)
		f.fail(0, "")
		must.Match(t, "a question", ask(t, key, sealed), nil)
	}
	server.Close()
	judged(t, key, sealed, "no connection", false)
}

// sealedBy opens a key, and seals with it.
func sealedBy(t *testing.T, mux *secrets.URLMux, uri string) (key vault.AEAD, sealed []byte) {
	t.Helper()
	key = must.Get(open(t.Context(), mux, uri))(t)
	sealed = must.Get(seal.Encrypt(t.Context(), key, []byte("ring"), []byte("place")))(t)
	return key, sealed
}

// judged checks whether an error of the service is a denial. Clients retry some
// errors until the context ends.
func judged(t *testing.T, key vault.AEAD, sealed []byte, answer string, denied bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := seal.Decrypt(seal.Fresh(ctx), key, sealed, []byte("place"))
	if err == nil || errors.Is(err, vault.ErrKeyDenied) != denied {
		t.Errorf("%s: %v, want a denial: %v", answer, err, denied)
	}
}
