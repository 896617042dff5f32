// An OpenID Connect provider at https://127.0.0.1, made with oidc-provider. It reads
// {cert, key, redirect} from the file that is its argument, and prints its URL. Then
// each line on its standard input is a command: "rotate" makes a new key and signs with
// it, "publish" makes a new key and only publishes it, "forget" removes all other keys.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createInterface } from 'node:readline'
import { generateKeyPairSync } from 'node:crypto'
import { Provider } from 'oidc-provider'

const config = JSON.parse(readFileSync(process.argv[2], 'utf8'))
let keys = [], handle, url, made = 0

function makeKey() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { ...privateKey.export({ format: 'jwk' }), kid: `key-${++made}`, use: 'sig', alg: 'RS256' }
}

// The sessions of people are in the memory of the package, so they outlive a provider.
function restart() {
  const provider = new Provider(url, {
    jwks: { keys },
    cookies: { keys: ['not a secret'] },
    conformIdTokenClaims: false,
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['groups'] },
    clients: [
      { client_id: 'console', client_secret: 'the secret of the console', redirect_uris: [config.redirect] },
      { client_id: 'ci', client_secret: 'the secret of ci', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
    ],
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: id === 'ann' ? ['staff', 'admins'] : ['staff'] }),
    }),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'https://vault.example.com',
        getResourceServerInfo: () => ({ scope: '', audience: 'vault', accessTokenFormat: 'jwt', accessTokenTTL: 3600, jwt: { sign: { alg: 'RS256' } } }),
      },
    },
  })
  handle = provider.callback()
}

const server = createServer({ cert: config.cert, key: config.key }, (req, res) => handle(req, res))
server.listen(0, '127.0.0.1', () => {
  url = `https://127.0.0.1:${server.address().port}`
  keys = [makeKey()]
  restart()
  console.log(`url ${url}`)
})
createInterface({ input: process.stdin }).on('line', (command) => {
  const fresh = makeKey()
  keys = { rotate: [fresh, ...keys], publish: [...keys, fresh], forget: [fresh] }[command]
  restart()
  console.log(`done ${command}`)
}).on('close', () => process.exit(0))
