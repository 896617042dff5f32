'use strict';
const nanoseconds = sys('hrtime');
const timeOrigin = Date.now() - nanoseconds() / 1e6;
const marks = new Map();
exports.performance = {
  timeOrigin,
  now: () => nanoseconds() / 1e6,
  mark(name) { marks.set(name, nanoseconds() / 1e6); return { name, entryType: 'mark', startTime: marks.get(name), duration: 0 }; },
  measure(name, start, end) {
    const from = marks.get(start) || 0;
    const to = end === undefined ? nanoseconds() / 1e6 : marks.get(end);
    return { name, entryType: 'measure', startTime: from, duration: to - from };
  },
  clearMarks() { marks.clear(); },
  timerify: (f) => f,
  toJSON: () => ({ timeOrigin }),
};
