import { expect, test } from 'vitest';
import { lookupName, resolveHosts } from './extra-hosts.ts';

const lookup = async (name: string) => {
  if (name === 'gw-2.example.com') return '192.0.2.9';
  throw new Error('ENOTFOUND');
};
const resolve = (address: string) =>
  resolveHosts([{ name: 'h', address }], new Set(['gw-2.example.com', 'nowhere']), lookup);

test.each([
  ['an extra host that needs no address is not changed', 'plant.reader', 'plant.reader'],
  [
    'an extra host that names another machine gets the address that this machine knows',
    'gw-2.example.com',
    '192.0.2.9',
  ],
])('%s', async (_, address, want) => {
  expect(await resolve(address)).toEqual([{ name: 'h', address: want }]);
});

test('a host name that cannot be resolved fails with an error that names it', async () => {
  await expect(resolve('nowhere')).rejects.toMatchObject({
    code: 'Failed',
    message: 'extra host h: this machine finds no address of "nowhere": ENOTFOUND',
  });
});

test("the machine's own resolver finds localhost", async () => {
  expect(await lookupName('localhost')).toMatch(/^(127\.0\.0\.1|::1)$/);
});
