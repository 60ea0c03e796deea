import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { DEFAULT_NAMESPACE, FIELD_MANAGERS } from '../api/names.ts';
import { createSigner, type SignedPair, type Signer } from '../signer/signer.ts';
import { readIfThere, writeWhole } from './files.ts';
import { API_SERVER_URL, keyFile, type Layout } from './layout.ts';

/**
 * The keys of a control plane: an authority and the certificates that it signs, which are made again in time, and when the clock was set.
 * The API server, its clients and the client of the entry process read the files of certificates again when they change; another authority
 * takes a new start of all of them.
 */

const DAY = 24 * 3600 * 1000;
const AUTHORITY_DAYS = 3650;
const CERTIFICATE_DAYS = 365;
/** A certificate with fewer days left is made again. */
const RENEW_DAYS = 60;
/** Clocks of one machine may be set back. */
const EARLIER = DAY;

/** The users of the API server, by the names of their files. */
const USERS = {
  admin: { subject: 'admin', groups: ['system:masters'] },
  'controller-manager': { subject: 'system:kube-controller-manager', groups: [] },
  controller: {
    subject: `system:serviceaccount:${DEFAULT_NAMESPACE}:${FIELD_MANAGERS.controller}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${DEFAULT_NAMESPACE}`],
  },
} as const satisfies Record<string, Pick<Parameters<Signer['issue']>[0], 'subject' | 'groups'>>;
export type UserName = keyof typeof USERS;

/**
 * Makes missing keys, and certificates that end soon. Nothing of a key leaves the folder. Resolves to why certificates were not made again
 * that are still valid; rejects where there is no valid one.
 */
export async function keepKeys(layout: Layout, now: number): Promise<readonly string[]> {
  const signer = createSigner();
  const refused: string[] = [];
  const validity = (days: number) => {
    const second = Math.floor(now / 1000) * 1000;
    return { notBefore: second - EARLIER, notAfter: second + days * DAY };
  };
  const at = (name: string) => keyFile(layout, name);
  const renew = async (name: string, present: SignedPair | undefined, made: Promise<SignedPair>) => {
    try {
      return writePair(at(name), await made);
    } catch (error) {
      if (!present || !isValid(present, now)) throw error;
      refused.push(`${name} was not made again: ${(error as Error).message}`);
      return present;
    }
  };
  const former = readPair(at('authority'));
  const ofAuthority = { subject: 'skerry-control-plane', names: [], algorithm: 'ECDSA', isAuthority: true } as const;
  const authority =
    former && lasts(former, now)
      ? former
      : await renew('authority', former, signer.issue({ ...ofAuthority, ...validity(AUTHORITY_DAYS) }));
  const keep = async (name: string, request: { subject: string; groups?: readonly string[] }, names: SignedNames) => {
    const found = readPair(at(name));
    const present = found && isSignedBy(found, authority) ? found : undefined;
    if (present && lasts(present, now)) return;
    const whole = { ...request, names, algorithm: 'ECDSA', isAuthority: false, ...validity(CERTIFICATE_DAYS) } as const;
    await renew(name, present, signer.issue(whole, authority));
  };
  await keep('api-server', { subject: 'kube-apiserver' }, [
    { type: 'ip', value: '127.0.0.1' },
    { type: 'dns', value: 'localhost' },
    { type: 'dns', value: 'kubernetes.default.svc' },
  ]);
  for (const [name, user] of Object.entries(USERS)) {
    await keep(name, user, [{ type: 'dns', value: name }]);
    writeWhole({ [at(`${name}.kubeconfig`)]: kubeconfig(layout, name) });
  }
  if (readIfThere(at('service-accounts.key')) === undefined) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    writeWhole({ [at('service-accounts.key')]: String(privateKey.export({ type: 'sec1', format: 'pem' })) });
  }
  return refused;
}

type SignedNames = Parameters<Signer['issue']>[0]['names'];

/** By the present clock, which may have been another when the certificate was made. */
function isValid({ cert }: SignedPair, now: number, days = 0): boolean {
  const { validFrom, validTo } = new X509Certificate(cert);
  return Date.parse(validFrom) <= now && Date.parse(validTo) - now > days * DAY;
}

const lasts = (pair: SignedPair, now: number): boolean => isValid(pair, now, RENEW_DAYS);

const isSignedBy = ({ cert }: SignedPair, authority: SignedPair): boolean =>
  new X509Certificate(cert).verify(new X509Certificate(authority.cert).publicKey);

function kubeconfig(layout: Layout, user: string): string {
  const cluster = { server: API_SERVER_URL, 'certificate-authority': keyFile(layout, 'authority.crt') };
  const credentials = {
    'client-certificate': keyFile(layout, `${user}.crt`),
    'client-key': keyFile(layout, `${user}.key`),
  };
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'skerry', cluster }],
    users: [{ name: user, user: credentials }],
    contexts: [{ name: 'skerry', context: { cluster: 'skerry', user, namespace: DEFAULT_NAMESPACE } }],
    'current-context': 'skerry',
  };
  // JSON is YAML.
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/** A pair whose halves belong together: a process that ended between them left others. */
function readPair(path: string): SignedPair | undefined {
  const [key, cert] = [readIfThere(`${path}.key`), readIfThere(`${path}.crt`)];
  if (key === undefined || cert === undefined) return undefined;
  return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)) ? { key, cert } : undefined;
}

function writePair(path: string, pair: SignedPair): SignedPair {
  writeWhole({ [`${path}.key`]: pair.key, [`${path}.crt`]: pair.cert });
  return pair;
}
