import { expect, test } from 'vitest';
import { LABELS } from '../api/names.ts';
import { countsForNobody, storedBytes } from './budget.ts';

const secret = (bytes: number, labels: Record<string, string>) => ({
  metadata: { name: 'x', labels },
  type: 'helm.sh/release.v1',
  data: { key: 'x'.repeat(bytes) },
});

test.for([
  ['the key of a node counts for nobody', 200, { [LABELS.nodeKey]: 'a' }, true],
  ['a provisioning key counts for nobody', 200, { [LABELS.provisioningKey]: 'a' }, true],
  ['a large Secret with the label of a key counts', 100_000, { [LABELS.nodeKey]: 'a' }, false],
  ['a Secret with the type of a Helm release counts', 200, {}, false],
] as const)('%s', ([, bytes, labels, expected]) => {
  const object = secret(bytes, labels) as never;
  expect(countsForNobody(object, storedBytes(object))).toBe(expected);
});
