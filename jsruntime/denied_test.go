package jsruntime_test

import (
	"testing"
)

// TestDeniedCalls calls functions that would touch the machine.
func TestDeniedCalls(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, nil)
	body := `const calls = {
  'fs.readFileSync': (m) => m.readFileSync('/etc/passwd'), 'fs.readFile': (m) => m.readFile('/etc/passwd', () => {}),
  'fs.existsSync': (m) => m.existsSync('/'), 'fs.writeFileSync': (m) => m.writeFileSync('/tmp/x', ''), 'fs.createReadStream': (m) => m.createReadStream('/etc/passwd'),
  'fs.promises.readFile': (m) => m.promises.readFile('/etc/passwd'), 'os.networkInterfaces': (m) => m.networkInterfaces(), 'os.userInfo': (m) => m.userInfo(),
  'net.connect': (m) => m.connect(80), 'net.Socket': (m) => new (class extends m.Socket {})(), 'net.createServer': (m) => m.createServer().listen(0),
  'tls.connect': (m) => m.connect(443), 'dns.lookup': (m) => m.lookup('example.com', () => {}), 'dns.promises.resolve4': (m) => m.promises.resolve4('example.com'),
  'child_process.exec': (m) => m.exec('id'), 'child_process.spawnSync': (m) => m.spawnSync('id'), 'http2.connect': (m) => m.connect('https://example.com'),
  'cluster.fork': (m) => m.fork(), 'worker_threads.Worker': (m) => new m.Worker('x'), 'v8.serialize': (m) => m.serialize(1), 'v8.getHeapSnapshot': (m) => m.getHeapSnapshot(), 'vm.measureMemory': (m) => m.measureMemory(),
  'fs.Stats': (m) => new m.Stats(), 'dns.Resolver': (m) => new m.Resolver(), 'tls.createSecureContext': (m) => m.createSecureContext(), 'tty.ReadStream': (m) => new m.ReadStream(0),
};
const wrong = [];
for (const [name, call] of Object.entries(calls)) {
  try {
    await call(require(name.split('.')[0]));
    wrong.push(name + ' returned');
  } catch (err) {
    if (err.code !== 'ERR_ACCESS_DENIED' || !err.message.includes(name)) wrong.push(name + ': ' + err.code + ' ' + err.message);
  }
}
return wrong;`
	if got, err := runBody(r, "t", body, patience); err != nil || got != "[]" {
		t.Errorf("got %s, %s", got, explain(err))
	}
}
