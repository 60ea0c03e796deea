import { createUser } from 'nkeys.js';
import { expect, test } from 'vitest';
import { startCallCounter } from '../../testing/count-calls.ts';
import { makeNkey, publicNkey } from './nkeys.ts';

test('the public key of a seed is read once, and of none of the seeds that are made here', async () => {
  using counter = await startCallCounter();
  const { seed } = await makeNkey('user');
  const other = new TextDecoder().decode(createUser().getSeed());
  const calls = await counter.during(() => [seed, other, seed, other].map(publicNkey));
  expect(calls.get('src/signer/nkeys.ts publicNkey')).toBe(4);
  expect(calls.get('src/signer/nkeys.ts keyOf')).toBe(1);
});
