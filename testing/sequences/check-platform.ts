import { createPrivateKey, X509Certificate } from 'node:crypto';
import { expect } from 'vitest';
import { LABELS } from '../../src/api/names.ts';
import type { Secret } from '../../src/api/resources.ts';
import type { EdgeNode } from '../../src/api/v3/index.ts';
import { NAMESPACE } from '../in-memory-controller.ts';
import type { Fleet } from './fleet.ts';
import { type Item, isShadowed, of } from './model.ts';
import { filesOf, neededAuthorities, platformOf } from './platform.ts';

/** What certificates say, by their text: most steps change none. */
const known = new Map<string, ReturnType<typeof factsOf>>();

function factsOf(certificate: string, key: string) {
  const read = new X509Certificate(certificate);
  const names = (read.subjectAltName ?? '').split(', ').flatMap((one) => /^DNS:(.*)$/.exec(one)?.[1] ?? []);
  const fits = read.checkPrivateKey(createPrivateKey(key));
  return { subject: read.subject, issuer: read.issuer, names: names.sort(), fits };
}

const textsOf = ({ data = {} }: Secret) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));

/** The Secret of a node, its files and its conditions are what the model says, and nothing of other nodes is left. */
export function checkPlatform(fleet: Fleet): void {
  const { state, controller } = fleet;
  const { secrets } = controller.stores;
  const named = (name: string) => secrets.get(NAMESPACE, name);
  const have = of(state, 'nodes').filter((node) => !isShadowed(state, node) && filesOf(node).size > 0);
  const is = secrets
    .list()
    .map(({ metadata }) => metadata.name)
    .filter((name) => name.startsWith('skerry-platform-'));
  expect(is.sort(), 'Secrets of platforms').toEqual(have.map(({ uuid }) => `skerry-platform-${uuid}`).sort());
  for (const authority of neededAuthorities(state))
    expect(named(`skerry-ca-${authority}`), `the key of ${authority}`).toBeDefined();
  for (const node of of(state, 'nodes')) {
    checkStatus(fleet, node);
    if (!have.includes(node)) continue;
    const secret = named(`skerry-platform-${node.uuid}`) as Secret;
    checkSecret(fleet, node, secret);
    const texts = textsOf(secret);
    const files = [...filesOf(node)]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { authority }]) => {
        const { 'ca.crt': trusted = '' } = textsOf(named(`skerry-ca-${authority}`) as Secret);
        const content = { 'ca.crt': trusted, 'tls.crt': texts[`${name}.crt`], 'tls.key': texts[`${name}.key`] };
        return { name, files: content };
      });
    const sent = (controller.desired(node.uuid ?? '')?.systemFiles ?? []).map((set) => ({
      name: set.name,
      files: textsOf({ data: set.files } as unknown as Secret),
    }));
    expect(sent, `files of ${node.name}`).toEqual(files);
  }
  for (const node of of(state, 'nodes').filter((one) => !have.includes(one) && !isShadowed(state, one)))
    expect(controller.desired(node.uuid ?? '')?.systemFiles, `files of ${node.name}`).toEqual([]);
}

function checkSecret(fleet: Fleet, node: Item, secret: Secret): void {
  const { labels, ownerReferences } = secret.metadata;
  const owner = fleet.stored(node)?.metadata.uid;
  expect({ labels, owner: ownerReferences?.map(({ uid }) => uid) }, `the Secret of ${node.name}`).toEqual({
    labels: { [LABELS.platform]: 'true' },
    owner: [owner],
  });
  const wanted = filesOf(node);
  const keys = [...wanted.keys()].flatMap((name) => [`${name}.crt`, `${name}.key`]);
  expect(Object.keys(secret.data ?? {}).sort(), `keys of the Secret of ${node.name}`).toEqual(
    ['expires', ...keys].sort(),
  );
  for (const [name, { hosts, authority }] of wanted) {
    const { [`${name}.crt`]: certificate = '', [`${name}.key`]: key = '' } = textsOf(secret);
    const facts = known.get(certificate + key) ?? factsOf(certificate, key);
    known.set(certificate + key, facts);
    const names = [...hosts].sort();
    const expected = { subject: `CN=${node.uuid}`, issuer: `CN=${authority}`, names, fits: true };
    expect(facts, `${name} of ${node.name}`).toEqual(expected);
  }
}

function checkStatus(fleet: Fleet, node: Item): void {
  const { phase, reason } = platformOf(fleet.state, node);
  const { platformStatus, conditions = [] } = (fleet.stored(node) as EdgeNode).status ?? {};
  const shown = `the platform of ${node.name}`;
  expect(platformStatus?.phase, shown).toBe(phase);
  const found = conditions.flatMap(({ type, reason: is }) => (PARTS.includes(type) ? [`${type} ${is}`] : []));
  if (!isShadowed(fleet.state, node)) expect(found, shown).toEqual(reason ? [`CertificatesReady ${reason}`] : []);
}
const PARTS = ['CertificatesReady', 'RouterReady', 'BusReady'];
