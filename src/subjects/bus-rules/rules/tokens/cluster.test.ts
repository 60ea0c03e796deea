import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type NatsServer, startNatsServer } from '../../../../../hack/nats.ts';
import { freePort } from '../../../../../hack/ports.ts';
import { atEnd } from '../../../../../testing/at-end.ts';
import {
  type Chain,
  type ChainAccount,
  type ChainUser,
  makeChain,
  nowSeconds,
} from '../../../../../testing/bus-chain.ts';
import { pub, speakBus } from '../../../../../testing/bus-protocol.ts';
import { temporaryFolder } from '../../../../../testing/temporary-folder.ts';
import { signJwt } from '../../../../signer/nkeys.ts';
import { accountClaims } from './claims.ts';
import { decodeToken } from './decode.ts';
import { nextIat, revoke } from './lineage.ts';

/**
 * What clusters of real servers make of the tokens of one account: a server that was away while a user was revoked brings its old token
 * back, and its peers compare both.
 */

/** A server with a directory of tokens that it exchanges with its peer every half second. */
interface Member {
  port: number;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** puts a token into its directory, as a copy of files does */
  keep(key: string, token: string): void;
  /** removes a token from its directory */
  drop(key: string): void;
}

async function makeCluster(chain: Chain, system: ChainAccount, size: number): Promise<Member[]> {
  const ports = await Promise.all(
    Array.from({ length: size }, async () => [await freePort(), await freePort()] as const),
  );
  const routes = ports.map(([, cluster]) => `"nats://127.0.0.1:${cluster}"`).join(', ');
  return ports.map(([port, cluster], index) => {
    const dir = temporaryFolder();
    const tokens = join(dir, 'tokens');
    mkdirSync(tokens);
    let server: NatsServer | undefined;
    atEnd(() => server?.stop());
    return {
      port,
      keep: (key, token) => writeFileSync(join(tokens, `${key}.jwt`), token),
      drop: (key) => rmSync(join(tokens, `${key}.jwt`)),
      async start() {
        server = await startNatsServer({
          ...{ dir, port },
          config: [
            `server_name: "member-${index}"`,
            `operator: ${chain.token}`,
            `system_account: ${system.publicKey}`,
            `resolver: { type: full, dir: "${tokens}", allow_delete: false, interval: "500ms" }`,
            `cluster: { name: "hub", listen: "127.0.0.1:${cluster}", routes: [${routes}] }`,
          ],
        });
      },
      async stop() {
        await server?.stop();
        server = undefined;
      },
    };
  });
}

interface Fleet {
  chain: Chain;
  members: readonly [Member, Member];
  /** a user of the system account */
  admin: ChainUser;
  account: ChainAccount;
}

async function makeFleet(): Promise<Fleet> {
  const chain = await makeChain();
  const [system, account] = [await chain.account('SYS'), await chain.account('plant')];
  const members = (await makeCluster(chain, system, 2)) as [Member, Member];
  for (const { keep } of members) keep(system.publicKey, await system.token());
  return { chain, members, admin: await system.user(), account };
}

/** Sends a token to a server that runs. */
async function push(port: number, admin: ChainUser, token: string): Promise<void> {
  const client = await speakBus(port, { as: admin });
  await client.send('SUB _INBOX.push 1', pub('$SYS.REQ.CLAIMS.UPDATE', token, '_INBOX.push'));
  client.end();
}

const isAdmitted = async (port: number, as: ChainUser) => {
  const client = await speakBus(port, { as });
  client.end();
  return client.greeting.length === 0;
};

/** Resolves when the servers have exchanged tokens that often: each asks the other one with such a message. */
async function exchanges(port: number, admin: ChainUser, count: number): Promise<void> {
  const client = await speakBus(port, { as: admin });
  await client.send('SUB $SYS.REQ.CLAIMS.PACK 1');
  for (let heard = 0; heard < count; heard++) await client.next('MSG $SYS.REQ.CLAIMS.PACK');
  client.end();
}

/** Revokes a user at one server while the other one is away with the former token; whether each admits the user after that. */
async function revokeWhileAway(
  next: (former: string, user: ChainUser, fleet: Fleet) => Promise<string>,
  iat = nowSeconds(),
) {
  const fleet = await makeFleet();
  const { members, admin, account } = fleet;
  const former = await account.token({}, { iat });
  const user = await account.user({}, { iat });
  for (const member of members) {
    member.keep(account.publicKey, former);
    await member.start();
  }
  const [stays, away] = members;
  expect([await isAdmitted(stays.port, user), await isAdmitted(away.port, user)]).toEqual([true, true]);
  await away.stop();
  await push(stays.port, admin, await next(former, user, fleet));
  await expect.poll(() => isAdmitted(stays.port, user)).toBe(false);
  await away.start();
  // Two exchanges of each, and one more of each that may have begun before.
  await exchanges(away.port, admin, 6);
  return { stays: await isAdmitted(stays.port, user), away: await isAdmitted(away.port, user) };
}

/** The next token as our encoder makes it. */
const byLineage =
  (clock: number) =>
  async (former: string, user: ChainUser, { chain, account }: Fleet) => {
    const before = decodeToken(former);
    const revocations = revoke({}, user.publicKey, decodeToken(user.token)?.iat ?? 0, clock);
    const input = { operator: chain.operator.publicKey, key: account.publicKey, name: 'plant', rule: {}, revocations };
    return signJwt(accountClaims({ ...input, iat: nextIat(clock, before) }), chain.operator.seed);
  };

describe('a user that was revoked while a server was away is refused by both after they exchange tokens', () => {
  const now = nowSeconds();
  test.each([
    ['with a right clock', now + 5, now],
    ['within the second of the former token', now, now],
    ['with a clock that was put ten minutes back', now - 600, now],
    ['with a former token of a clock that was ten minutes ahead', now, now + 600],
  ])('%s', async (_, clock, iat) => {
    expect(await revokeWhileAway(byLineage(clock), iat)).toEqual({ stays: false, away: false });
  });
});

describe('a user that was revoked everywhere is refused by a server', () => {
  test.each<[string, (member: Member, key: string, former: string) => void]>([
    ['whose old file was copied back before it started again', ({ keep }, key, former) => keep(key, former)],
    ['whose file was removed before it started again', ({ drop }, key) => drop(key)],
  ])('%s', async (_, damage) => {
    const fleet = await makeFleet();
    const { members, admin, account } = fleet;
    const iat = nowSeconds();
    const [former, user] = [await account.token({}, { iat }), await account.user({}, { iat })];
    for (const member of members) {
      member.keep(account.publicKey, former);
      await member.start();
    }
    const [stays, damaged] = members;
    await push(stays.port, admin, await byLineage(iat)(former, user, fleet));
    for (const { port } of members) await expect.poll(() => isAdmitted(port, user)).toBe(false);
    await damaged.stop();
    damage(damaged, account.publicKey, former);
    await damaged.start();
    await exchanges(damaged.port, admin, 6);
    expect([await isAdmitted(stays.port, user), await isAdmitted(damaged.port, user)]).toEqual([false, false]);
  });
});

describe('the mistakes that the lineage keeps from', () => {
  /** A token with the revocation, and another time or id. */
  const mistaken =
    (change: (former: { iat: number; jti: string }) => object) =>
    async (former: string, user: ChainUser, fleet: Fleet) => {
      const right = decodeToken(await byLineage(nowSeconds())(former, user, fleet)) as { iat: number; jti: string };
      return signJwt(
        { ...right, ...change(decodeToken(former) as { iat: number; jti: string }) },
        fleet.chain.operator.seed,
      );
    };

  test.each([
    ['a token of the same second', mistaken(({ iat }) => ({ iat }))],
    ['a token of an earlier second', mistaken(({ iat }) => ({ iat: iat - 60 }))],
    ['a token with the id of the former one', mistaken(({ jti }) => ({ jti }))],
  ])('%s lets the revoked user in again', async (_, next) => {
    const admits = await revokeWhileAway(next);
    expect(admits.stays || admits.away).toBe(true);
  });
});

describe('a user whose token is of a clock ten minutes ahead', () => {
  test.each([
    ['is refused with the revocation of the lineage', revoke, false],
    [
      'would be admitted with the time of the revocation',
      (_: object, key: string, __: number, now: number) => ({ [key]: now }),
      true,
    ],
  ])('%s', async (_, revocation, admitted) => {
    const { members, account, admin } = await makeFleet();
    const [member] = members;
    const [ahead, now] = [nowSeconds() + 600, nowSeconds()];
    member.keep(account.publicKey, await account.token({}, { iat: now }));
    await member.start();
    const user = await account.user({}, { iat: ahead });
    expect(await isAdmitted(member.port, user)).toBe(true);
    const revocations = revocation({}, user.publicKey, ahead, now);
    await push(member.port, admin, await account.token({}, { iat: now + 1, revocations }));
    // A second user shows that the server has the new token.
    const other = await account.user({}, { iat: now });
    const marker = await account.token({}, { iat: now + 2, revocations: { ...revocations, [other.publicKey]: now } });
    await push(member.port, admin, marker);
    await expect.poll(() => isAdmitted(member.port, other)).toBe(false);
    expect(await isAdmitted(member.port, user)).toBe(admitted);
  });
});

describe('the delivery of a revocation', () => {
  test('ends the open connection of the user and no other one', async () => {
    const { members, account, admin } = await makeFleet();
    const [member] = members;
    const iat = nowSeconds();
    member.keep(account.publicKey, await account.token({}, { iat }));
    await member.start();
    const [user, other] = [await account.user({}, { iat }), await account.user({}, { iat })];
    const [open, stays] = [await speakBus(member.port, { as: user }), await speakBus(member.port, { as: other })];
    await push(
      member.port,
      admin,
      await account.token({}, { iat: iat + 1, revocations: revoke({}, user.publicKey, iat, iat) }),
    );
    expect(await open.next('-ERR')).toContain('Revoked');
    expect(await stays.send(pub('a'))).toEqual([]);
  });
});
