// Uses regular expressions in every way, and returns the results as JSON.
const use = (cases) => cases.map(({ p, f, t }) => {
  let re;
  try { re = new RegExp(p, f); } catch (err) { return err.name; }
  const groups = (m) => m && [[...m], m.index, m.groups && Object.entries(m.groups), m.indices && [[...m.indices], m.indices.groups && Object.entries(m.indices.groups)]];
  try {
    const out = [re.source, re.flags, groups(re.exec(t)), re.lastIndex, groups(re.exec(t)), re.lastIndex];
    re.lastIndex = 1;
    out.push(re.test(t), re.lastIndex);
    re.lastIndex = 0;
    out.push(t.replace(re, "[$1|$&|$<a>]"), t.replace(re, (...args) => '<' + args.slice(0, 2).join() + '>'), re.lastIndex);
    out.push(t.split(re), t.split(re, 2), t.search(re), t.match(re));
    if (f.includes('g')) out.push([...t.matchAll(re)].map(groups));
    return out;
  } catch (err) { return 'later ' + err.name; }
}).map((out) => JSON.stringify(out));

module.exports = ({ args }) => use(args);
