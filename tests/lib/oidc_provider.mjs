// SPDX-License-Identifier: Apache-2.0
// A real OpenID provider (npm oidc-provider), in memory, on loopback: node oidc_provider.mjs PORT PATH-OF-ITS-MODULE.
// The device flow for the client `tutti`, with refresh tokens. POST /test/approve/CODE?sub=NAME&groups=a,b plays the person;
// POST /test/deny/CODE refuses; POST /test/rotate brings new signing keys, with which everybody has to sign in again.
// The client `machine` gets access tokens for the audience tutti (client_credentials). POST /test/sign with JSON says how they are signed from then
// on: `alg`, `payload` and `header`, whose members replace the provider's (null takes one away). alg HS256 takes the ES256 key's public half, as
// PEM, for the secret. POST /test/namesake lists the ES256 key's name twice: the provider itself refuses to be configured so.
import { createPublicKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const [port, path] = process.argv.slice(2);
const { Provider } = await import(path);
const issuer = `http://127.0.0.1:${port}`;
const groups = new Map();
const makeEc = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
let provider, ec, change, namesake;

// A key of the provider's own, or one that it takes for a secret.
function signature() {
  if (change.alg !== 'HS256') return { alg: change.alg ?? 'ES256' };
  return { alg: 'HS256', kid: ec.kid, key: Buffer.from(createPublicKey({ key: ec, format: 'jwk' }).export({ type: 'spki', format: 'pem' })) };
}

const withoutNulls = (members = {}) => Object.fromEntries(Object.entries(members).map(([name, value]) => [name, value ?? undefined]));

function customize(_, token, parts) {
  Object.assign(parts.payload, { groups: ['ml'] }, withoutNulls(change.payload));
  parts.header = withoutNulls(change.header);
}

function start() {
  ec = { ...makeEc().privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256', kid: randomUUID() };
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  change = {};
  namesake = undefined;
  provider = new Provider(issuer, {
    jwks: { keys: [ec, { ...rsa, use: 'sig', alg: 'RS256', kid: randomUUID() }] },
    clients: [{
      client_id: 'tutti', token_endpoint_auth_method: 'none', application_type: 'native', redirect_uris: [], response_types: [],
      grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'], id_token_signed_response_alg: 'ES256',
    }, { client_id: 'machine', client_secret: 'of-a-machine', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }],
    claims: { openid: ['sub', 'groups'] },
    conformIdTokenClaims: false,
    formats: { customizers: { jwt: customize } },
    features: {
      deviceFlow: { enabled: true }, revocation: { enabled: true }, devInteractions: { enabled: false }, clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true, defaultResource: () => undefined,
        getResourceServerInfo: () => ({ scope: '', audience: 'tutti', accessTokenFormat: 'jwt', accessTokenTTL: 300, jwt: { sign: signature() } }),
      },
    },
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, groups: groups.get(sub) ?? [] }) }),
  });
}

async function answer(code, change) {
  const device = await provider.DeviceCode.findByUserCode(code.replaceAll('-', ''), { ignoreExpiration: true });
  if (!device) return 404;
  Object.assign(device, await change(device));
  await device.save();
  return 204;
}

async function approve(device, url) {
  const sub = url.searchParams.get('sub');
  groups.set(sub, url.searchParams.get('groups').split(','));
  const grant = new provider.Grant({ clientId: device.clientId, accountId: sub });
  grant.addOIDCScope('openid offline_access');
  return { grantId: await grant.save(), accountId: sub, scope: 'openid offline_access', authTime: Math.floor(Date.now() / 1000) };
}

async function play(url, request) {
  const [, , action, code] = url.pathname.split('/');
  if (action === 'rotate') start();
  else if (action === 'namesake') namesake = { ...makeEc().publicKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256', kid: ec.kid };
  else if (action === 'sign') change = JSON.parse((await request.toArray()).join(''));
  else if (action === 'approve') return answer(code, (device) => approve(device, url));
  else if (action === 'deny') return answer(code, () => ({ error: 'access_denied', errorDescription: 'the person said no' }));
  return 204;
}

process.on('SIGTERM', () => process.exit(0));
start();
createServer(async (request, response) => {
  const url = new URL(request.url, issuer);
  if (request.method === 'POST' && url.pathname.startsWith('/test/')) response.writeHead(await play(url, request)).end();
  else if (namesake && url.pathname === '/jwks') response.end(JSON.stringify({ keys: [{ ...ec, d: undefined }, namesake] }));
  else provider.callback()(request, response);
}).listen(Number(port), '127.0.0.1');
