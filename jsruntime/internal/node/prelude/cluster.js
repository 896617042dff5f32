'use strict';
// cluster of one.
module.exports = Object.assign(new (require('events'))(), {
  isMaster: true, isPrimary: true, isWorker: false, workers: {}, settings: {},
  ...require('denied').each('cluster.', 'disconnect fork setupMaster setupPrimary Worker'),
});
