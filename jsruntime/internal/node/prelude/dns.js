'use strict';
// dns without a resolver.
const { rejects, each } = require('denied');
const lookups = 'lookup lookupService resolve resolve4 resolve6 resolveAny resolveCaa resolveCname resolveMx resolveNaptr resolveNs resolvePtr ' +
  'resolveSoa resolveSrv resolveTxt reverse setServers';
const rest = { getServers: () => [], setDefaultResultOrder() {} };

module.exports = {
  ...each('dns.', lookups + ' Resolver'), ...rest,
  promises: { ...each('dns.promises.', lookups, rejects), ...each('dns.promises.', 'Resolver'), ...rest },
};
