'use strict';
// Errors with which tenant code chooses the response to its caller.
const brand = sys('brand')();

function define(name, status, title) {
  const C = class extends Error {
    constructor(errors) {
      super(typeof errors === 'string' ? errors : title);
      this.name = name;
      if (errors !== undefined) this.errors = errors;
    }
  };
  Object.defineProperty(C, 'name', { value: name });
  Object.defineProperty(C.prototype, brand, { value: Object.freeze({ status, title }) });
  Object.defineProperty(C.prototype, 'status', { value: status, writable: true });
  exports[name] = C;
}

define('BadRequestError', 400, 'Bad Request');
define('InvalidReactorConfigurationError', 400, 'Invalid Reactor Configuration');
define('AuthenticationError', 401, 'Authentication Failed');
define('InvalidPaymentMethodError', 402, 'Invalid Payment Method');
define('AuthorizationError', 403, 'Authorization Failed');
define('RateLimitError', 429, 'Rate Limit Exceeded');
define('ReactorRuntimeError', 500, 'Reactor Runtime Error');
define('ServiceUnavailableError', 503, 'Service Unavailable');

exports.CustomHttpResponseError = class CustomHttpResponseError extends Error {
  constructor(response) {
    super('Custom HTTP response');
    this.name = 'CustomHttpResponseError';
    this.response = response || {};
  }
};
Object.defineProperty(exports.CustomHttpResponseError.prototype, brand, {
  value: Object.freeze({ status: 500, title: 'CustomHttpResponseError' }),
});
