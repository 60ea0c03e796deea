import { randomBytes } from 'node:crypto';
import { FIELD_MANAGERS, LABELS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { decodeData, encodeData } from '../../../datastore/keyed-text.ts';
import { apiVersionOf, createOrUpdate, equal, ownerReference } from '../../../kube/mod.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { onceEach } from '../../../rules/once-each.ts';
import type { NodeCertificate } from '../../../rules/part.ts';
import type { Signer } from '../../../signer/signer.ts';
import { withoutSharing } from '../../content/rules/core-objects/form.ts';
import { RESOURCES } from '../../kinds.ts';
import { createMaterial } from '../../pki/reconcile/material.ts';
import { makeSystemAuthority } from '../../pki/reconcile/system-authority.ts';
import { chainOf, type SignerNow, signerOf, type Texts } from '../../pki/rules/authority.ts';
import { alternativeNames, dueOf, requireLasting, type Wanted } from '../../pki/rules/due.ts';
import { type CertificateFacts, comparable, readPair } from '../../pki/rules/pair.ts';
import { lifeOf, madeAt, textOfTime } from '../../pki/rules/validity.ts';
import { hostsOfCertificate } from '../rules/certificates.ts';
import {
  certificateKeys,
  EXPIRES,
  HOST,
  isRandomKey,
  MOST_BYTES,
  pairIn,
  platformSecretName,
  randomKey,
} from '../rules/secret.ts';

/** Addresses that a machine reports may change as often as it likes: they lead to another certificate once in this time. */
const REPORTED_MS = 10 * 60_000;

/** Makes and renews the keys of nodes with their certificates, in one Secret for each node. */
export function createNodeCertificates(deps: ControllerDependencies, signer: Signer) {
  const { client, stores, namespace } = deps;
  const material = createMaterial(deps);
  // Of each Secret facts alone are kept: the texts are in the stores, and there are as many as nodes.
  const factsIn = onceEach((_: Secret) => new Map<string, CertificateFacts | undefined>());

  function factsOf(secret: Secret, name: string, texts: Texts): CertificateFacts | undefined {
    const known = factsIn(secret);
    if (!known.has(name)) {
      const pair = pairIn(texts, name);
      const facts = pair && readPair(pair);
      known.set(name, facts && !('problem' in facts) ? facts : undefined);
    }
    return known.get(name);
  }

  /** What signs for an authority now; undefined while nothing does. */
  function signs(authority: string, now: number): SignerNow | undefined {
    const object = stores.certificateAuthorities.get(namespace, authority);
    const keys = object && material.keysOf(object);
    const by = keys && signerOf(keys, now);
    return by && by.certificate.notAfter > now ? by : undefined;
  }

  const isHostOfAnother = (node: EdgeNode) => (address: string) =>
    stores.nodes.byIndex('host', address).some(({ metadata }) => metadata.uid !== node.metadata.uid);

  const wantedOf = (node: EdgeNode, certificate: NodeCertificate): Wanted => ({
    subject: nodeUuid(node),
    hosts: hostsOfCertificate(certificate, node, isHostOfAnother(node)),
    algorithm: 'ECDSA',
    life: lifeOf(),
  });

  /** Whether all that differs is an address that the machine reports, and that led to the present certificate just now. */
  function isTooSoon(node: EdgeNode, wanted: Wanted, have: CertificateFacts, by: SignerNow, now: number): boolean {
    if (node.spec.host !== undefined || now - madeAt(have) >= REPORTED_MS) return false;
    return dueOf({ ...wanted, hosts: have.hosts }, have, by, now).issue === undefined;
  }

  async function issue(wanted: Wanted, by: SignerNow, validity: { notBefore: number; notAfter: number }, now: number) {
    const { subject, algorithm, hosts } = wanted;
    const names = alternativeNames(hosts);
    const made = await signer.issue({ subject, algorithm, names, isAuthority: false, ...validity }, by.pair.pem);
    const facts = requireLasting(wanted, made, by, now);
    return { facts, pair: { cert: made.cert + chainOf(by.pair), key: made.key } };
  }

  /**
   * Makes the Secret of a node have these certificates and random keys alone. Returns when one of them is due next, Unix ms; undefined when that
   * depends on an authority, whose Secret then leads to another run.
   */
  async function keep(
    node: EdgeNode,
    { certificates, keys }: { certificates: readonly NodeCertificate[]; keys: readonly string[] },
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const name = platformSecretName(nodeUuid(node));
    const known = stores.secrets.get(namespace, name);
    const stored: Texts = decodeData(known?.data);
    // What a key has encrypted stays on the machine when nothing wants the key any more, and may be read again later.
    const texts: Record<string, string> = Object.fromEntries(
      Object.entries(stored).filter(([key, value]) => isRandomKey(key, value)),
    );
    for (const key of keys.map(randomKey)) texts[key] ??= randomBytes(32).toString('base64');
    if (certificates.length === 0) {
      if (Object.keys(texts).length > 0) await write(node, { name, known, texts }, signal);
      else if (known) await remove(known, signal);
      return undefined;
    }
    for (const authority of new Set(certificates.map((one) => one.authority)))
      await makeSystemAuthority(deps, authority, signal);
    const now = material.now([known]);
    const kept: CertificateFacts[] = [];
    const times: number[] = [];
    for (const certificate of certificates) {
      const by = signs(certificate.authority, now);
      const have = known && factsOf(known, certificate.name, stored);
      const present = have && pairIn(stored, certificate.name);
      const wanted = wantedOf(node, certificate);
      const due = by && dueOf(wanted, have, by, now);
      const waits = by && due?.issue && have && isTooSoon(node, wanted, have, by, now);
      if (waits) times.push(madeAt(have) + REPORTED_MS);
      const made = by && due?.issue && !waits ? await issue(wanted, by, due.issue, now) : undefined;
      const found = made ?? (have && present && { facts: have, pair: present });
      if (!found) continue;
      const keys = certificateKeys(certificate.name);
      texts[keys.certificate] = found.pair.cert;
      texts[keys.key] = found.pair.key;
      kept.push(found.facts);
      const next = by && dueOf(wanted, found.facts, by, now);
      times.push(...[next?.issue ? undefined : next?.renewAt, by?.until].filter((at) => at !== undefined));
    }
    if (kept.length > 0) {
      texts[EXPIRES] = textOfTime(Math.min(...kept.map(({ notAfter }) => notAfter)));
      const { host } = node.spec;
      if (host !== undefined && kept.every(({ hosts }) => hosts.includes(comparable(host)))) texts[HOST] = host;
      await write(node, { name, known, texts }, signal);
    }
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  async function write(
    node: EdgeNode,
    { name, known, texts }: { name: string; known: Secret | undefined; texts: Record<string, string> },
    signal: AbortSignal,
  ): Promise<void> {
    const bytes = Object.values(texts).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    if (bytes > MOST_BYTES) throw new Error(`the certificates of a node have ${bytes} bytes, more than ${MOST_BYTES}`);
    const data = encodeData(texts);
    await createOrUpdate<Secret>(
      client,
      RESOURCES.secrets,
      { namespace, name },
      (present) => {
        // A Secret that another leader wrote meanwhile decides which certificates are due. The store brings it, and another run.
        if (present?.metadata.resourceVersion !== known?.metadata.resourceVersion) return undefined;
        const kept = withoutSharing(present?.metadata ?? { name, namespace });
        const metadata = {
          ...kept,
          labels: { ...kept.labels, [LABELS.platform]: 'true' },
          ownerReferences: [ownerReference(node)],
        };
        const isSame = present && equal(present.data, data) && equal(present.metadata, metadata);
        return isSame
          ? present
          : {
              apiVersion: apiVersionOf(RESOURCES.secrets),
              kind: RESOURCES.secrets.kind,
              type: 'Opaque',
              ...present,
              metadata,
              data,
            };
      },
      { known, signal, call: { fieldManager: FIELD_MANAGERS.controller } },
    );
  }

  async function remove({ metadata: { name, uid } }: Secret, signal: AbortSignal): Promise<void> {
    await client.delete(RESOURCES.secrets, { namespace, name }, { signal, ...(uid && { preconditions: { uid } }) });
  }

  return { keep, remove };
}
