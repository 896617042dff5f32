// Sends messages with the unchanged package of Twilio, whose password is not in this
// process. Requests for Twilio go to the server in the argument.
const twilio = require('twilio');

class Local extends twilio.RequestClient {
  request(options) {
    return super.request({ ...options, uri: options.uri.replace('https://api.twilio.com', process.argv[2]) });
  }
}

const client = twilio('AC00000000000000000000000000000001', '{{ secret }}', { httpClient: new Local() });

(async () => {
  for (let i = 0; i < 2; i++) {
    const message = await client.messages.create({ from: '+15005550006', to: '+41791234567', body: `order & ${i}` });
    console.log(message.sid, message.body);
  }
  try {
    await client.messages('SM1').remove();
  } catch (e) {
    console.log(e.status, e.message);
  }
})();
