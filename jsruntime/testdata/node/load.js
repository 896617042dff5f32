// Runs a load and prints the least CPU time of a few turns, in microseconds.
const f = new Function('require', process.argv[2]);
let least = Infinity;
for (let i = 0; i < 7; i++) {
  const before = process.cpuUsage();
  f(require);
  const used = process.cpuUsage(before);
  least = Math.min(least, used.user + used.system);
}
console.log(least);
