import { join } from 'node:path';
import { DEX_CLIENT, DEX_PASSWORD, startDex } from '../dex.ts';
import type { Log } from '../progress.ts';
import { keepPorts, writeAtomically } from './files.ts';

/** Another provider of the users, beside the local stack. */
export interface LocalProvider extends AsyncDisposable {
  issuer: string;
  clientId: string;
  /** of its certificate */
  caFile: string;
  /** settings of the controller */
  settings: Readonly<Record<string, string>>;
}

/**
 * PROVIDER=dex: Dex has the people, and its keys and tokens, in memory. The password of all of them is in the file
 * `dex/password` of the data folder.
 */
export async function startLocalProvider({
  dir,
  rest,
  log,
}: {
  dir: string;
  rest: string;
  log: Log;
}): Promise<LocalProvider> {
  const folder = join(dir, 'dex');
  const { dex: port } = await keepPorts(join(dir, 'dex-port.json'), { dex: undefined });
  const dex = await startDex({ dir: folder, port, redirectUris: [`${rest}/api/v3/user/oauth/callback`], log });
  const { issuer, caFile } = dex;
  const { clientId, clientSecret } = DEX_CLIENT;
  writeAtomically(join(folder, 'password'), `${DEX_PASSWORD}\n`);
  log(`People log in at Dex: ${issuer}`);
  return {
    ...{ issuer, clientId, caFile },
    settings: {
      AUTH_MODE: 'external',
      OIDC_ISSUER_URL: issuer,
      OIDC_CLIENT_ID: clientId,
      OIDC_CLIENT_SECRET: clientSecret,
      SKERRY_OIDC_CA_FILE: caFile,
    },
    [Symbol.asyncDispose]: () => dex[Symbol.asyncDispose](),
  };
}
