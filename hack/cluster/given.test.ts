import { expect, test } from 'vitest';
import { crdsRefusal } from '../../e2e/_given-cluster.ts';

test('a run on a cluster that is given refuses CRDs of another version, which it would replace', () => {
  const name = 'edgenodes.skerry.dev';
  expect(crdsRefusal(new Map(), '0.2.0')).toBeUndefined();
  expect(crdsRefusal(new Map([[name, '0.2.0']]), '0.2.0')).toBeUndefined();
  for (const version of ['0.1.0', '0.3.0', ''])
    expect(crdsRefusal(new Map([[name, version]]), '0.2.0')).toContain(`${name}: "${version}"`);
});
