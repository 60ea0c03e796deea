import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { buildTool } from '../../../../../hack/tool.ts';
import { type ChainAccount, makeChain, nowSeconds } from '../../../../../testing/bus-chain.ts';
import { temporaryFolder } from '../../../../../testing/temporary-folder.ts';
import { publicKeyText } from '../../../../rules/nkey-text.ts';
import { credentials } from './credentials.ts';

/**
 * Tokens of our encoder as `nats auth` shows them, the tool by which people look at tokens. Its first build takes five minutes of one
 * core: `make nightly` runs it.
 */
describe.runIf(process.env.SKERRY_NIGHTLY !== undefined)('natscli', () => {
  let run: (...args: string[]) => Promise<string>;
  const dir = temporaryFolder();
  const file = (name: string, content: string) => {
    writeFileSync(join(dir, name), content, { mode: 0o600 });
    return join(dir, name);
  };
  let account: ChainAccount;
  const revoked = publicKeyText('user', new Uint8Array(32).fill(7));

  beforeAll(async () => {
    const nats = await buildTool('natscli', 'github.com/nats-io/natscli/nats');
    const env = { ...process.env, HOME: dir, XDG_CONFIG_HOME: join(dir, 'config'), XDG_DATA_HOME: join(dir, 'data') };
    run = async (...args) => {
      const { stdout, stderr } = await promisify(execFile)(nats, args, { env, timeout: 30_000 });
      return stdout + stderr;
    };
    const chain = await makeChain();
    account = await chain.account('plant');
    const user = await account.user({ pubAllow: ['a.>'], maxSubscriptions: 7, bearerToken: true }, { name: 'reader' });
    const rule = {
      ...{ maxConnections: 3, maxMsgPayload: '1k', diskStorage: '2g', streams: 4 },
      exports: [{ type: 'stream' as const, subject: 'news.>', name: 'news' }],
    };
    const backup = {
      ...{ name: 'test-operator', key: { key: chain.operator.seed }, token: chain.token, signingKeys: [] },
      accounts: [
        {
          ...{ name: 'plant', key: { key: account.seed }, signingKeys: null },
          token: await account.token(rule, { revocations: { [revoked]: nowSeconds() } }),
          users: [{ name: 'reader', key: { key: user.seed }, token: user.token }],
        },
      ],
    };
    await run('auth', 'operator', 'restore', 'skerry', file('backup.json', JSON.stringify(backup)));
  }, 900_000);

  test('shows the limits, the exports and the revocations of an account', async () => {
    const shown = await run('auth', 'account', 'info', 'plant', '--operator', 'skerry');
    for (const line of [
      /JetStream: true/,
      /Revocations: 1/,
      /Stream Exports: 1/,
      /Connections: 3/,
      /Maximum Payload: 1.0 KiB|Maximum Payload: 1,024/,
      /Users: 1/,
    ])
      expect(shown).toMatch(line);
  });

  test('shows the limits and the permissions of a user', async () => {
    const shown = await run('auth', 'user', 'info', 'reader', 'plant', '--operator', 'skerry');
    for (const line of [/Bearer Token: true/, /Max Subscriptions: 7/, /a\.>/]) expect(shown).toMatch(line);
    expect(shown).toContain(account.publicKey);
  });

  test('finds the end of a file of credentials', async () => {
    const check = async (exp?: number) => {
      const user = await account.user({}, exp === undefined ? {} : { exp });
      const creds = file(`${exp}.creds`, credentials(user.token, user.seed));
      const args = ['server', 'check', 'credential', '--credential', creds, '--require-expiry'];
      return run(...args).catch(({ stdout }: { stdout: string }) => stdout);
    };
    expect(await check(nowSeconds() + 86_400)).toMatch(/^OK .*expiry=(86400|86399)/);
    expect(await check()).toMatch(/^CRITICAL .*never expires/);
  });
});
