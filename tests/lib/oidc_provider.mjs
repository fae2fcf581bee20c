// SPDX-License-Identifier: Apache-2.0
// A real OpenID provider (npm oidc-provider), in memory, on loopback: node oidc_provider.mjs PORT PATH-OF-ITS-MODULE.
// The device flow for the client `tutti`, with refresh tokens. POST /test/approve/CODE?sub=NAME&groups=a,b plays the person;
// POST /test/deny/CODE refuses; POST /test/rotate brings new signing keys, with which everybody has to sign in again.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const [port, path] = process.argv.slice(2);
const { Provider } = await import(path);
const issuer = `http://127.0.0.1:${port}`;
const groups = new Map();
let provider;

function start() {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  provider = new Provider(issuer, {
    jwks: { keys: [{ ...pair, use: 'sig', alg: 'ES256', kid: randomUUID() }, { ...rsa, use: 'sig', alg: 'RS256', kid: randomUUID() }] },
    clients: [{
      client_id: 'tutti', token_endpoint_auth_method: 'none', application_type: 'native', redirect_uris: [], response_types: [],
      grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'], id_token_signed_response_alg: 'ES256',
    }],
    claims: { openid: ['sub', 'groups'] },
    conformIdTokenClaims: false,
    features: { deviceFlow: { enabled: true }, revocation: { enabled: true }, devInteractions: { enabled: false } },
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

async function play(url) {
  const [, , action, code] = url.pathname.split('/');
  if (action === 'rotate') start();
  else if (action === 'approve') return answer(code, (device) => approve(device, url));
  else if (action === 'deny') return answer(code, () => ({ error: 'access_denied', errorDescription: 'the person said no' }));
  return 204;
}

process.on('SIGTERM', () => process.exit(0));
start();
createServer(async (request, response) => {
  const url = new URL(request.url, issuer);
  if (request.method === 'POST' && url.pathname.startsWith('/test/')) response.writeHead(await play(url)).end();
  else provider.callback()(request, response);
}).listen(Number(port), '127.0.0.1');
