import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSigner } from '../src/signer/signer.ts';
import type { ServerTls } from '../src/subjects/bus-servers/rules/server-config.ts';
import type { PemPair } from '../src/subjects/pki/rules/pair.ts';
import { temporaryFolder } from './temporary-folder.ts';

const HOUR_MS = 3_600_000;

/**
 * Files of a key for 127.0.0.1 and localhost, with its certificate and authority; for servers and for clients. `given`: an authority
 * that exists, with what trusts it.
 */
export async function tlsFiles(given?: { ca: string; pair: PemPair }): Promise<ServerTls> {
  const signer = createSigner();
  const dir = temporaryFolder();
  const now = Date.now();
  const request = { algorithm: 'ECDSA', notBefore: now - HOUR_MS, notAfter: now + HOUR_MS } as const;
  const authority =
    given?.pair ?? (await signer.issue({ ...request, subject: 'bus-site-ca', names: [], isAuthority: true }));
  const names = [
    { type: 'ip', value: '127.0.0.1' },
    { type: 'dns', value: 'localhost' },
  ] as const;
  const pair = await signer.issue({ ...request, subject: 'hub', names, isAuthority: false }, authority);
  const file = (name: string, text: string) => {
    const path = join(dir, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  return {
    ca: file('ca.crt', given?.ca ?? authority.cert),
    cert: file('tls.crt', pair.cert),
    key: file('tls.key', pair.key),
  };
}
