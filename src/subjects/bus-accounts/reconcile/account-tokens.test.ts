import { expect, test } from 'vitest';
import { makeChain } from '../../../../testing/bus-chain.ts';
import type { BusAccount } from '../../../api/v3/bus-account.ts';
import { makeNkey } from '../../../signer/nkeys.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { BUS_KEYS, type BusTexts } from '../rules/secret.ts';
import { createAccountTokens } from './account-tokens.ts';

test('the keys of an account are derived once for each state of its Secret, however many users are signed', async () => {
  const account = await (await makeChain()).account('shop');
  const other = async () => (await makeNkey('account')).seed;
  const keys = { [BUS_KEYS.seed]: account.seed, [BUS_KEYS.signing]: await other(), [BUS_KEYS.extra]: await other() };
  let texts: BusTexts = { ...keys, [BUS_KEYS.token]: await account.token() };
  const parts = { secrets: { read: () => ({ texts }) }, operator: {}, rules: {} } as never;
  const tokens = createAccountTokens({ clock: Date.now, client: {} as never }, parts);
  const object = { metadata: { uid: 'a', name: 'shop' }, spec: { name: 'shop' }, status: {} } as unknown as BusAccount;
  const first = tokens.keysOf(object);
  expect(first?.key).toBe(account.publicKey);
  expect(tokens.keysOf(object)).toBe(first);
  texts = { ...texts, [BUS_KEYS.signing]: await other() };
  expect(tokens.keysOf(object)?.signing.key).not.toBe(first?.signing.key);
});

test('an account that ends while its Secret is lost has a last token that refuses everybody, later than the lost one', async () => {
  const { operator, account } = await makeChain();
  const { publicKey } = await account('shop');
  const issuedAt = Math.floor(Date.now() / 1_000) + 60;
  let texts: BusTexts = {};
  const secrets = {
    read: () => ({ texts }),
    async write(_: unknown, change: (present: BusTexts) => Promise<BusTexts | undefined>) {
      texts = (await change(texts)) ?? texts;
    },
  };
  const parts = {
    secrets,
    operator: { signer: () => ({ key: operator.publicKey, seed: operator.seed }) },
    rules: { ofAccount: () => ({ name: 'default-account', spec: {} }) },
  } as never;
  const tokens = createAccountTokens({ clock: Date.now, client: {} as never }, parts);
  const object = {
    metadata: { uid: 'a', name: 'shop' },
    spec: { name: 'shop' },
    status: { uuid: 'u', publicKey, issuedAt },
  } as unknown as BusAccount;
  await tokens.end(object, issuedAt, AbortSignal.timeout(10_000));
  const last = decodeToken(texts[BUS_KEYS.token] ?? '');
  expect(last).toMatchObject({ sub: publicKey, iat: issuedAt + 1, nats: { revocations: { '*': issuedAt } } });
});
