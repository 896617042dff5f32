'use strict';
// pipeTo and tee.
const { raise } = require('codes');
const { deferred, markHandled } = require('webstreams_common');
const readable = require('webstreams_readable');
const writable = require('webstreams_writable');

// optionsOf reads the options of a pipe.
function optionsOf(options) {
  const { preventAbort, preventCancel, preventClose, signal } = options || {};
  if (signal !== undefined && !isSignal(signal)) raise('ERR_INVALID_ARG_TYPE', 'options.signal', 'AbortSignal', signal);
  return { preventAbort: !!preventAbort, preventCancel: !!preventCancel, preventClose: !!preventClose, signal };
}

// isSignal reports whether a value is a signal, and not only derived from one.
function isSignal(value) {
  try { return value instanceof require('abort').AbortSignal && typeof value.aborted === 'boolean'; } catch { return false; }
}

async function pipe(source, destination, { preventAbort, preventCancel, preventClose, signal }) {
  const reader = source.getReader();
  const writer = destination.getWriter();
  readable.stateOf(source).disturbed = true;
  const from = readable.stateOf(source);
  const to = writable.stateOf(destination);
  let last = Promise.resolve();
  const end = deferred();
  let over = false;
  // finish waits for pending writes, performs the last action, and settles.
  const finish = async (action, has, err) => {
    if (over) return;
    over = true;
    if (to.state === 'writable' && !to.closing) await last;
    try {
      if (action) await action();
    } catch (other) {
      has = true;
      err = other;
    }
    writer.releaseLock();
    reader.releaseLock();
    if (signal) signal.removeEventListener('abort', onabort);
    if (has) end.reject(err); else end.resolve();
  };
  const onabort = () => finish(async () => {
    const actions = [];
    if (!preventAbort) actions.push(to.state === 'writable' ? writable.abort(to, signal.reason) : Promise.resolve());
    if (!preventCancel) actions.push(from.state === 'readable' ? readable.cancel(source, signal.reason) : Promise.resolve());
    await Promise.all(actions);
  }, true, signal.reason);
  if (signal) { if (signal.aborted) { onabort(); return end.promise; } signal.addEventListener('abort', onabort); }
  reader.closed.then(() => { if (!over && from.state === 'closed') finish(preventClose ? null : () => (to.closing || to.state === 'closed' ? undefined : writer.close())); },
    (err) => finish(preventAbort ? null : () => writable.abort(to, err), true, err));
  writer.closed.then(() => { if (!over) { const err = new TypeError('the destination is closed'); finish(preventCancel ? null : () => readable.cancel(source, err), true, err); } },
    (err) => { if (!over) { finish(preventCancel ? null : () => readable.cancel(source, err), true, err); } });
  const loop = async () => {
    while (!over) {
      await writer.ready;
      if (over) return;
      const { value, done } = await reader.read();
      if (done) return;
      last = writer.write(value).catch(() => {});
    }
  };
  markHandled(loop());
  return end.promise;
}

// tee reads a stream once for two others.
function tee(stream) {
  const { ReadableStream } = readable;
  const bytes = readable.stateOf(stream).controller instanceof readable.ReadableByteStreamController;
  const reader = stream.getReader();
  const cancelled = [false, false];
  const reasons = [];
  const done = deferred();
  const branches = [];
  let reading = false;
  let again = false;
  const copy = (chunk) => (bytes ? chunk.slice() : chunk);
  const pull = () => {
    if (reading) { again = true; return Promise.resolve(); }
    reading = true;
    reader.read().then(({ value, done: ended }) => {
      reading = false;
      const second = ended || cancelled[1] ? undefined : copy(value);
      branches.forEach((controller, i) => {
        if (cancelled[i]) return;
        if (ended) { controller.close(); if (controller.byobRequest) controller.byobRequest.respond(0); } else controller.enqueue(i === 1 ? second : value);
      });
      if (ended) { if (!cancelled[0] || !cancelled[1]) done.resolve(); return; }
      if (again) { again = false; pull(); }
    }, () => { reading = false; });
    return Promise.resolve();
  };
  const branch = (i) => new ReadableStream({
    type: bytes ? 'bytes' : undefined,
    start(controller) { branches[i] = controller; },
    pull,
    cancel(reason) {
      cancelled[i] = true;
      reasons[i] = reason;
      if (cancelled[0] && cancelled[1]) done.resolve(reader.cancel(reasons));
      return done.promise;
    },
  }, bytes ? { highWaterMark: 0 } : undefined);
  const out = [branch(0), branch(1)];
  reader.closed.then(undefined, (err) => {
    for (const controller of branches) controller.error(err);
    done.resolve();
  });
  return out;
}

module.exports = { pipe, optionsOf, tee };
