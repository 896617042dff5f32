'use strict';
// dns without a resolver.
const { rejects, each, texts } = require('denied');

const codes = texts(
  'NODATA=ENODATA FORMERR=EFORMERR SERVFAIL=ESERVFAIL NOTFOUND=ENOTFOUND NOTIMP=ENOTIMP REFUSED=EREFUSED BADQUERY=EBADQUERY BADNAME=EBADNAME ' +
  'BADFAMILY=EBADFAMILY BADRESP=EBADRESP CONNREFUSED=ECONNREFUSED TIMEOUT=ETIMEOUT EOF=EOF FILE=EFILE NOMEM=ENOMEM DESTRUCTION=EDESTRUCTION ' +
  'BADSTR=EBADSTR BADFLAGS=EBADFLAGS NONAME=ENONAME BADHINTS=EBADHINTS NOTINITIALIZED=ENOTINITIALIZED LOADIPHLPAPI=ELOADIPHLPAPI ' +
  'ADDRGETNETWORKPARAMS=EADDRGETNETWORKPARAMS CANCELLED=ECANCELLED',
);
const lookups = 'lookup lookupService resolve resolve4 resolve6 resolveAny resolveCaa resolveCname resolveMx resolveNaptr resolveNs resolvePtr ' +
  'resolveSoa resolveSrv resolveTxt reverse setServers';

const silent = { getServers: () => [], setDefaultResultOrder() {} };
class Resolver {}
Object.assign(Resolver.prototype, each('dns.Resolver.', lookups), { getServers: () => [], cancel() {}, setLocalAddress() {} });
class PromisesResolver {}
Object.assign(PromisesResolver.prototype, each('dns.promises.Resolver.', lookups, rejects), { getServers: () => [], cancel() {} });

module.exports = {
  ...each('dns.', lookups), ...silent, ...codes,
  ADDRCONFIG: 32, ALL: 16, V4MAPPED: 8,
  Resolver,
  promises: { ...each('dns.promises.', lookups, rejects), ...silent, ...codes, Resolver: PromisesResolver },
};
