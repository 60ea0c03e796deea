import { expect, test } from 'vitest';
import type { KubeClient } from '../../../src/kube/mod.ts';
import { createPlugin } from '../_plugin.ts';

/** An address that is accepted gets as far as the API server, which finds nothing here. */
const find = () => Promise.reject(new Error('the API server was asked'));
const exec = (address: string) =>
  createPlugin({ find } as unknown as KubeClient, 'skerry')('exec', 'shop/web', '--controller', address);

test('a token goes over http to another machine only where http:// was named', async () => {
  expect(await exec('c.example:443')).toMatchObject({
    code: 2,
    err: expect.stringMatching(/"c\.example:443".* name https:\/\/c\.example:443, or http:\/\/c\.example:443/),
  });
  expect(await exec('http://c.example:443')).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^warning: over http.*\n.*the API server was asked/),
  });
});

test.each(['localhost:51121', '127.0.0.1:51121', '[::1]:51121', 'https://c.example'])(
  'a token goes to %s without a word',
  async (address) => {
    expect(await exec(address)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^(?!warning).*the API server was asked/),
    });
  },
);
