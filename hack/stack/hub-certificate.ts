import { mkdirSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { API_VERSION } from '../../src/api/names.ts';
import type { Kube, KubeObject } from '../kube.ts';
import { waitFor } from '../wait.ts';

/** The names of the texts in the Secret of a certificate. */
const TEXTS = { ca: 'ca.crt', cert: 'tls.crt', key: 'tls.key' } as const;

export interface HubCertificateOptions {
  /** a superuser */
  kube: Kube;
  namespace: string;
  /** folder for its files, which are named as the texts of the Secret */
  dir: string;
  /** name of the Certificate */
  name: string;
  /** name of the authority that signs it, which is made as well */
  authority: string;
  /** address of the hub besides loopback */
  host: string;
  wait: { timeoutMs: number; signal?: AbortSignal };
}

/** Has the controller make a certificate for a hub that runs as a process, and writes its files; returns their paths. */
export async function keepHubCertificate(options: HubCertificateOptions): Promise<Record<keyof typeof TEXTS, string>> {
  const { kube, namespace, dir, name, authority, host, wait } = options;
  const object = (kind: string, of: string, spec: object) =>
    ({ apiVersion: API_VERSION, kind, metadata: { name: of, namespace }, spec }) as KubeObject;
  await kube.apply(object('CertificateAuthority', authority, { type: 'self-signed' }));
  const hosts = [...new Set([host, 'localhost', '127.0.0.1'])].join(',');
  const ca = { type: 'direct', secretName: authority };
  await kube.apply(object('Certificate', name, { subject: name, hosts, keyAlgorithm: 'ECDSA', ca }));
  const found = await waitFor(
    async () => {
      const texts = await secretTexts(kube, namespace, name);
      return Object.values(TEXTS).every((text) => texts[text]) ? texts : undefined;
    },
    { what: `the certificate ${name}`, ...wait },
  );
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const files = Object.entries(TEXTS).map(([of, text]) => {
    const file = join(dir, text);
    writeFileSync(file, found[text] ?? '', { mode: 0o600 });
    return [of, file];
  });
  return Object.fromEntries(files);
}

/** The texts of a Secret; none while there is no such Secret. */
export async function secretTexts(kube: Kube, namespace: string, name: string): Promise<Record<string, string>> {
  const secret = await kube.get<{ data?: Record<string, string> }>(`/api/v1/namespaces/${namespace}/secrets/${name}`);
  const decoded = Object.entries(secret?.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64')]);
  return Object.fromEntries(decoded.map(([key, value]) => [key, String(value)]));
}

/** An address under which containers of this machine and other machines reach it. */
export function machineAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1';
}
