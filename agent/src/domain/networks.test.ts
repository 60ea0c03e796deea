import { expect, test } from 'vitest';
import { cidrOf, networkOf, overlap } from './networks.ts';

test.each(['172.30.0.0/16', '10.0.0.0/8', '192.168.4.0/28', '100.64.0.0/10'])(
  '%s is a network for containers',
  (text) => {
    expect(cidrOf(text)).toBeDefined();
  },
);

test.each([
  '172.30.0.1/16',
  '172.30.0.0',
  '10.0.0.0/7',
  '8.8.8.0/24',
  '10.0.0.0/29',
  '10.0.0/8',
  '10.0.0.0/8/8',
  '010.0.0.0/8',
  '0.0.0.0/0',
  'fd00::/64',
  '',
])('%s is none', (text) => expect(cidrOf(text)).toBeUndefined());

test.each([
  ['10.1.0.0/16', '10.1.2.3/24', true],
  ['10.1.2.0/24', '10.0.0.0/8', true],
  ['10.1.0.0/16', '10.2.0.1/16', false],
  ['192.168.1.0/25', '192.168.1.200/25', false],
  ['255.0.0.0/8', '0.0.0.0/0', true],
])('%s and %s have an address in common: %s', (a, b, isSo) => {
  const [one, other] = [networkOf(a), networkOf(b)];
  expect(one && other && overlap(one, other)).toBe(isSo);
});
