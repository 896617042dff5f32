// Runs every snippet of a corpus and prints the results by name.
const fs = require('fs');
for (const name of ['log', 'error', 'table', 'time', 'timeEnd']) console[name] = () => {};
(async () => {
  const out = {};
  for (const line of fs.readFileSync(process.argv[2], 'utf8').trim().split('\n')) {
    const { name, body } = JSON.parse(line);
    try {
      const value = await eval('(async function (req) {' + body + '\n})')({});
      out[name] = value === undefined ? 'null' : JSON.stringify(value);
    } catch (err) {
      out[name] = 'throws ' + err.message;
    }
  }
  process.stdout.write(JSON.stringify(out));
})();
