import { API_VERSION, CONTROLLER_AUTHORITY, CONTROLLER_CERTIFICATE, FIELD_MANAGERS } from '../api/names.ts';
import type { Certificate } from '../api/v3/certificate.ts';
import type { CertificateAuthority } from '../api/v3/certificate-authority.ts';
import type { Stores } from '../datastore/stores.ts';
import { createOrUpdate, type KubeClient, type KubeObject, type Store } from '../kube/mod.ts';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { textOfSecret } from '../subjects/content/rules/core-objects/form.ts';
import { KINDS } from '../subjects/kinds.ts';
import { isSecretOf, KEYS } from '../subjects/pki/rules/authority.ts';
import { authorityNameOf } from '../subjects/pki/rules/certificate.ts';
import { credentialsOf } from './credentials.ts';
import { CurrentCredentials, type TlsSource } from './source.ts';

export interface OwnCertificateOptions {
  client: Pick<KubeClient, 'find' | 'create' | 'replace'>;
  namespace: string;
  stores: Pick<Stores, 'secrets' | 'certificates'>;
  /** that clients know the controller by */
  hosts: readonly string[];
  log: Log;
  clock?: Clock;
  random?: () => number;
}

/** Months that a certificate is valid; some clients accept no server's certificate of more than 825 days. */
const MONTHS = 12;
const RETRY: Backoff = { baseMs: 1_000, factor: 2, maxMs: 60_000, spread: 0.3 };
const CALL_MS = 10_000;

/**
 * The certificate that the controller makes for itself: a Certificate, and an authority of the system that signs it. Each replica creates
 * them, since only a replica of this configuration knows that they are wanted, and takes key and certificate from the Secret over the API;
 * the leader renews them as all others. Of objects that exist it changes the hosts alone, so that an admin may choose another authority.
 */
export function createOwnCertificate(options: OwnCertificateOptions): TlsSource & {
  /** Creates the objects, now and whenever they are deleted, until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
} {
  const { client, namespace, stores, hosts, log, clock = systemClock, random = Math.random } = options;
  const ref = { namespace, name: CONTROLLER_CERTIFICATE };
  const credentials = new CurrentCredentials(log);

  function look(): void {
    const secret = stores.secrets.get(namespace, ref.name);
    if (!secret || !isSecretOf(secret, 'certificate', ref.name)) {
      // A Secret that was deleted is made again, and until then the certificate is as good as it was.
      if (!credentials.current && stores.secrets.synced && stores.certificates.synced)
        credentials.take({ problem: whyNone(stores.certificates.get(namespace, ref.name)) });
      return;
    }
    const {
      [KEYS.certificate]: cert = '',
      [KEYS.key]: key = '',
      [KEYS.trusted]: authorities,
    } = textOfSecret(secret).data;
    const found = credentialsOf({ cert, key, authorities });
    credentials.take('problem' in found ? { problem: `the Secret ${ref.name}: ${found.problem}` } : found);
  }

  const isOurs = ({ object }: { object: KubeObject }) => object.metadata.name === ref.name;
  const subscriptions = new DisposableStack();
  for (const store of [stores.secrets, stores.certificates] as readonly Store<KubeObject>[])
    subscriptions.use(store.subscribe((change) => isOurs(change) && look()));
  look();

  async function ensure(signal: AbortSignal): Promise<void> {
    const bounded = { signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]) };
    const call = { fieldManager: FIELD_MANAGERS.controller };
    const present = await client.find(KINDS.certificates.resource, ref, bounded);
    const { spec } = withHosts(present, { namespace, hosts });
    if (spec.ca?.secretName === CONTROLLER_AUTHORITY)
      await createOrUpdate<CertificateAuthority>(
        client,
        KINDS.certificateAuthorities.resource,
        { namespace, name: CONTROLLER_AUTHORITY },
        (authority) => authority ?? authorityIn(namespace),
        { ...bounded, call },
      );
    await createOrUpdate<Certificate>(
      client,
      KINDS.certificates.resource,
      ref,
      (certificate) => withHosts(certificate, { namespace, hosts }),
      { ...bounded, call },
    );
  }

  /** Resolves once the Certificate is deleted. */
  const whenDeleted = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      const end = () => {
        subscription[Symbol.dispose]();
        signal.removeEventListener('abort', end);
        resolve();
      };
      const subscription = stores.certificates.subscribe((change) => {
        if (change.type === 'delete' && isOurs(change)) end();
      });
      signal.addEventListener('abort', end);
      if (signal.aborted) end();
    });

  return {
    get current() {
      return credentials.current;
    },
    get problem() {
      return credentials.current
        ? undefined
        : (credentials.problem ?? 'the certificate of the controller is not read yet');
    },
    subscribe: (listener) => credentials.subscribe(listener),
    async run(signal) {
      await Promise.all([stores.secrets, stores.certificates].map((store) => store.whenSynced(signal))).catch(() => {});
      look();
      for (let failures = 0; !signal.aborted; ) {
        const deleted = new AbortController();
        const gone = whenDeleted(AbortSignal.any([signal, deleted.signal]));
        try {
          await ensure(signal);
          failures = 0;
          await gone;
        } catch (error) {
          deleted.abort();
          if (signal.aborted) return;
          failures += 1;
          log.warn({ err: error, certificate: ref.name }, 'Cannot create the certificate of the controller');
          await sleep(backoffDelay(RETRY, failures, random), signal, clock);
        }
      }
    },
    [Symbol.dispose]: () => subscriptions.dispose(),
  };
}

/** Why there is no Secret, as the Certificate says it. */
function whyNone(certificate: Certificate | undefined): string {
  const what = `the Certificate ${CONTROLLER_CERTIFICATE}`;
  if (!certificate) return `${what} does not exist yet`;
  const ready = certificate.status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status === 'False'
    ? `${what} has no Secret: ${ready.reason}: ${ready.message}`
    : `${what} has no Secret yet: the leader makes it, unless it is of a version without certificates`;
}

const headOf = (namespace: string, name: string) => ({ apiVersion: API_VERSION, metadata: { namespace, name } });

const authorityIn = (namespace: string): CertificateAuthority => ({
  ...headOf(namespace, CONTROLLER_AUTHORITY),
  kind: 'CertificateAuthority',
  spec: { type: 'self-signed', subject: `Skerry controller ${namespace}`.slice(0, 64) },
});

/**
 * The Certificate for these hosts; the same object where nothing changes. A certificate that signs itself would leave machines without
 * any authority that they trust before and after a renewal.
 */
function withHosts(
  present: Certificate | undefined,
  { namespace, hosts }: { namespace: string; hosts: readonly string[] },
): Certificate {
  const asked = hosts.join(',');
  const ca = { type: 'direct', secretName: CONTROLLER_AUTHORITY } as const;
  if (!present)
    return {
      ...headOf(namespace, CONTROLLER_CERTIFICATE),
      kind: 'Certificate',
      spec: { subject: CONTROLLER_CERTIFICATE, hosts: asked, expiration: MONTHS, ca },
    };
  const isSigned = authorityNameOf(present) !== undefined;
  if (present.spec.hosts === asked && isSigned) return present;
  return { ...present, spec: { ...present.spec, hosts: asked, ca: isSigned ? present.spec.ca : ca } };
}
