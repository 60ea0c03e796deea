import { expect, test } from 'vitest';
import { lookupName, resolveHosts } from './extra-hosts.ts';

const isMicroservice = (name: string) => name === 'plant.reader';
const lookup = async (name: string) => {
  if (name === 'gw-2.example.com') return '192.0.2.9';
  throw new Error('ENOTFOUND');
};
const resolve = (address: string) => resolveHosts([{ name: 'h', address }], isMicroservice, lookup);

test.each([
  ['an address stays', '192.0.2.1', '192.0.2.1'],
  ['an address of the newer kind stays', '2001:db8::1', '2001:db8::1'],
  ["the engine's word for the machine stays", 'host-gateway', 'host-gateway'],
  ['a microservice stays a name, which the engine follows', 'plant.reader', 'plant.reader'],
  ['another machine gets the address that this machine knows', 'gw-2.example.com', '192.0.2.9'],
])('%s', async (_, address, want) => {
  expect(await resolve(address)).toEqual([{ name: 'h', address: want }]);
});

test('a name that nobody knows is an error that names it', async () => {
  await expect(resolve('nowhere')).rejects.toMatchObject({
    code: 'Failed',
    message: 'extra host h: this machine finds no address of "nowhere": ENOTFOUND',
  });
});

test("the machine's own resolver", async () => {
  expect(await lookupName('localhost')).toMatch(/^(127\.0\.0\.1|::1)$/);
});
