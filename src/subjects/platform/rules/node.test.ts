import { expect, test } from 'vitest';
import { storedNode } from '../../../../testing/stored.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Base64ByKey } from '../../../rules/system-files.ts';
import { platformSections } from './node.ts';
import { PARTS } from './parts.ts';
import { platformSecretName } from './secret.ts';

test('a node gets the values of its Secret and of its authorities as they are stored, without a copy in another form', () => {
  const node = storedNode('gw', { routerMode: 'none', networkRouter: 'hub' });
  // No text has these bytes: reading the value as one, and writing it again, would change it.
  const bytes = (last: number) => Buffer.from([0xff, 0xfe, last]).toString('base64');
  const secrets: Record<string, Base64ByKey> = {
    [platformSecretName(nodeUuid(node))]: {
      'router-local-agent.crt': bytes(1),
      'router-local-agent.key': bytes(2),
      expires: Buffer.from('2030-01-01T00:00:00Z').toString('base64'),
    },
    'skerry-ca-default-router-local-ca': { 'ca.crt': bytes(3) },
  };
  const { systemFiles, parts } = platformSections(node, {
    platform: {
      parts: PARTS,
      facts: { hasDefaultRouter: false, isBusEnabled: false },
      secret: (name) => secrets[name],
      applicationNamed: () => undefined,
    },
    nodeByName: () => undefined,
  });
  expect(systemFiles).toEqual([
    { name: 'router-local-agent', files: { 'ca.crt': bytes(3), 'tls.crt': bytes(1), 'tls.key': bytes(2) } },
  ]);
  expect(parts).toMatchObject([{ condition: 'CertificatesReady', expiresAt: Date.parse('2030-01-01T00:00:00Z') }]);
});
