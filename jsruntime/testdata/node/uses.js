// Runs every use of a package.
(async () => {
  const { args, files } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
  const out = {};
  for (const [name, file] of files) {
    try {
      out[name] = JSON.stringify(await require(file)({ args }));
    } catch (err) {
      out[name] = 'throws ' + (err && err.stack);
    }
  }
  require('fs').writeFileSync(process.argv[2], JSON.stringify(out));
  process.exit();
})();
