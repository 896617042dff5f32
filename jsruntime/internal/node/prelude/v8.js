'use strict';
// v8 of another engine. structuredClone copies values.
module.exports = require('denied').each('v8.', 'cachedDataVersionTag deserialize Deserializer DefaultDeserializer getHeapCodeStatistics ' +
  'getHeapSnapshot getHeapSpaceStatistics getHeapStatistics serialize Serializer DefaultSerializer setFlagsFromString ' +
  'setHeapSnapshotNearHeapLimit stopCoverage takeCoverage writeHeapSnapshot');
