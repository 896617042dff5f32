'use strict';
// cluster of one.
const { refuse } = require('denied');
const EventEmitter = require('events');

class Worker extends EventEmitter {}
Object.assign(Worker.prototype, { send: refuse('cluster.Worker.send'), kill: refuse('cluster.Worker.kill') });

module.exports = Object.assign(new EventEmitter(), {
  isMaster: true, isPrimary: true, isWorker: false,
  SCHED_NONE: 1, SCHED_RR: 2, schedulingPolicy: 2,
  Worker, workers: {}, settings: {},
  disconnect(callback) { if (callback) require('process').nextTick(callback); },
  fork: refuse('cluster.fork'),
  setupMaster: refuse('cluster.setupMaster'),
  setupPrimary: refuse('cluster.setupPrimary'),
});
