'use strict';
// The old interface of timers: enroll sets the timeout of an object, and active
// starts it.
const timers = require('timers');
const { raise } = require('codes');
const { validateNumber } = require('validators');
const maxDelay = 2 ** 31 - 1;

exports.enroll = function enroll(item, delay) {
  validateNumber(delay, 'msecs');
  if (delay < 0 || !Number.isFinite(delay)) raise('ERR_OUT_OF_RANGE', 'msecs', 'a non-negative finite number', delay);
  exports.unenroll(item);
  item._idleTimeout = Math.min(Math.trunc(delay), maxDelay);
};
exports.unenroll = function unenroll(item) {
  if (item._vaultTimer) timers.clearTimeout(item._vaultTimer);
  item._idleTimeout = -1;
};
exports.active = exports._unrefActive = function active(item) {
  if (!(item._idleTimeout >= 0)) return;
  if (item._vaultTimer) timers.clearTimeout(item._vaultTimer);
  const timer = timers.setTimeout(() => { if (item._onTimeout) item._onTimeout(); }, item._idleTimeout);
  Object.defineProperty(item, '_vaultTimer', { value: timer, configurable: true, writable: true });
};
