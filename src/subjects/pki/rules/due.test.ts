import { describe, expect, test } from 'vitest';
import { createSigner } from '../../../signer/signer.ts';
import {
  type AuthorityKeys,
  bundle,
  chainOf,
  KEYS,
  keysIn,
  signerOf,
  textsOfAuthority,
  trustedOf,
} from './authority.ts';
import { alternativeNames, type Due, dueOf, type SigningAuthority, type Wanted } from './due.ts';
import { type CertificateFacts, isSignedBy, readPair } from './pair.ts';
import { validityOf } from './validity.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOW = Date.parse('2026-11-26T12:00:00Z');
const signer = createSigner();

const WANTED: Wanted = {
  subject: 'Wärme, "7" = <a>',
  hosts: ['b.example', '10.0.0.5', 'A.example', '2001:DB8:0::5'],
  algorithm: 'ECDSA',
  life: 90 * DAY,
};

async function made(wanted: Wanted, validity: { notBefore: number; notAfter: number }, by?: Pair, isAuthority = false) {
  const request = { subject: wanted.subject, names: alternativeNames(wanted.hosts), algorithm: wanted.algorithm };
  const pem = await signer.issue({ ...request, ...validity, isAuthority }, by?.pem);
  return { pem, facts: readPair(pem) as CertificateFacts };
}
type Pair = { pem: { cert: string; key: string }; facts: CertificateFacts };

const authorityOf = (subject: string, validity = validityOf(NOW, 900 * DAY)) =>
  made({ ...WANTED, subject, hosts: [] }, validity, undefined, true);
const asSigner = ({ facts }: Pair, others: readonly Pair[] = [], since = 0): SigningAuthority => ({
  certificate: facts,
  others: others.map((one) => one.facts),
  since,
});
const why = (due: Due) => (due.issue ? due.because : undefined);

describe('a certificate', () => {
  test('is made when there is none, from the creation of its object on', () => {
    const due = dueOf({ ...WANTED, createdAt: NOW - 2_000 }, undefined, undefined, NOW);
    expect(due).toMatchObject({ issue: { notBefore: NOW - 2_000 - HOUR, notAfter: NOW - 2_000 + 90 * DAY } });
  });

  test('stays as long as nothing is asked of it that it is not', async () => {
    const { facts } = await made(WANTED, validityOf(NOW, WANTED.life));
    const due = dueOf(WANTED, facts, undefined, NOW + 50 * DAY);
    expect(why(due)).toBeUndefined();
  });

  test.each<[string, Partial<Wanted>, string]>([
    ['subject', { subject: 'other' }, 'its subject is another'],
    ['list of hosts', { hosts: ['b.example'] }, 'its hosts are others'],
    ['algorithm', { algorithm: 'RSA' }, 'its key is of another algorithm'],
    ['life', { life: 80 * DAY }, 'its life is another'],
  ])('is made anew when another %s is asked for', async (_, change, because) => {
    const { facts } = await made(WANTED, validityOf(NOW, WANTED.life));
    expect(why(dueOf({ ...WANTED, ...change }, facts, undefined, NOW + DAY))).toBe(because);
  });

  test('stays when its hosts are asked for in another order or spelling', async () => {
    const { facts } = await made(WANTED, validityOf(NOW, WANTED.life));
    const hosts = ['2001:db8::5', '10.0.0.5', 'a.EXAMPLE', 'b.example'];
    expect(why(dueOf({ ...WANTED, hosts }, facts, undefined, NOW + DAY))).toBeUndefined();
  });

  test('is renewed with a third of its life left', async () => {
    const { facts } = await made(WANTED, validityOf(NOW, WANTED.life));
    const { renewAt } = dueOf(WANTED, facts, undefined, NOW) as { renewAt: number };
    expect(why(dueOf(WANTED, facts, undefined, renewAt - 1))).toBeUndefined();
    expect(dueOf(WANTED, facts, undefined, renewAt)).toMatchObject({ issue: validityOf(renewAt, WANTED.life) });
  });

  test('is renewed once for an order, which its own start then answers', async () => {
    const { facts } = await made(WANTED, validityOf(NOW, WANTED.life));
    const ordered = { ...WANTED, orderedAt: NOW + DAY };
    const due = dueOf(ordered, facts, undefined, NOW + DAY + 700);
    expect(due.issue).toEqual(validityOf(NOW + DAY, WANTED.life));
    const next = await made(WANTED, due.issue as never);
    expect(why(dueOf(ordered, next.facts, undefined, NOW + DAY + 1_700))).toBeUndefined();
  });

  test('waits for an order of a clock that is fast, and carries it out then', async () => {
    const { facts } = await made(WANTED, validityOf(NOW, WANTED.life));
    const ordered = { ...WANTED, orderedAt: NOW + HOUR };
    expect(dueOf(ordered, facts, undefined, NOW + 1_000)).toEqual({ renewAt: NOW + HOUR });
    expect(why(dueOf(ordered, facts, undefined, NOW + HOUR))).toBeDefined();
  });
});

describe('a certificate of an authority', () => {
  test('ends with it, and is not renewed while that gains nothing', async () => {
    const authority = await authorityOf('short', validityOf(NOW, 30 * DAY));
    const due = dueOf(WANTED, undefined, asSigner(authority), NOW);
    expect(due.issue?.notAfter).toBe(NOW + 30 * DAY);
    const { facts } = await made(WANTED, due.issue as never, authority);
    expect(dueOf(WANTED, facts, asSigner(authority), NOW + 29 * DAY)).toEqual({ renewAt: undefined });
  });

  test('is made anew at once when its authority is another one or none', async () => {
    const [one, other] = [await authorityOf('one'), await authorityOf('one')];
    const { facts } = await made(WANTED, validityOf(NOW, WANTED.life), one);
    expect(why(dueOf(WANTED, facts, asSigner(other), NOW))).toBe('something else signs it');
    expect(why(dueOf(WANTED, facts, undefined, NOW))).toBe('something else signs it');
    expect(isSignedBy(facts, one.facts)).toBe(true);
    expect(isSignedBy(facts, other.facts)).toBe(false);
  });

  test('is made anew within two hours after the next key of its authority took over', async () => {
    const [former, next] = [await authorityOf('plant'), await authorityOf('plant')];
    const since = NOW + 10 * DAY;
    const { facts } = await made(WANTED, validityOf(NOW, WANTED.life), former);
    const due = (at: number) => dueOf(WANTED, facts, asSigner(next, [former], since), at);
    const { renewAt } = due(since - 1) as { renewAt: number };
    expect(renewAt).toBeGreaterThanOrEqual(since);
    expect(renewAt).toBeLessThanOrEqual(since + 2 * HOUR);
    expect(why(due(since + 2 * HOUR))).toBeDefined();
  });
});

describe('an authority', () => {
  const keysOf = async (): Promise<AuthorityKeys> => {
    const [former, current] = [
      await authorityOf('plant', validityOf(NOW - 600 * DAY, 900 * DAY)),
      await authorityOf('plant', validityOf(NOW, 900 * DAY)),
    ];
    return { former, current, others: [former.facts] };
  };

  test('signs with the former key until the next certificate was a day on its way', async () => {
    const keys = await keysOf();
    expect(signerOf(keys, NOW + DAY - 1)).toMatchObject({ pair: keys.former, until: NOW + DAY });
    expect(signerOf(keys, NOW + DAY)).toMatchObject({ pair: keys.current, since: NOW + DAY });
    // Whoever trusts one of the two trusts what either signs.
    for (const at of [NOW, NOW + 2 * DAY]) {
      const { certificate, others } = signerOf(keys, at);
      const trusted = trustedOf(certificate, others, at).map(({ fingerprint }) => fingerprint);
      expect(trusted).toEqual(expect.arrayContaining([keys.current, keys.former].map((one) => one?.facts.fingerprint)));
    }
  });

  test('is trusted by its former certificate until that expires', async () => {
    const keys = await keysOf();
    const { facts } = keys.current;
    expect(trustedOf(facts, keys.others, NOW + 299 * DAY)).toHaveLength(2);
    expect(trustedOf(facts, keys.others, NOW + 301 * DAY)).toHaveLength(1);
  });

  test('is read from the Secret that it was written to', async () => {
    const keys = await keysOf();
    const texts = textsOfAuthority(keys.current as never, keys.former as never, keys.others, NOW);
    expect(keysIn(texts)).toEqual(keys);
    expect(keysIn({ ...texts, [KEYS.formerKey]: '' })).not.toHaveProperty('former');
  });

  test.each<[string, (pair: Pair) => Promise<Record<string, string>>, string]>([
    ['has no certificate', async () => ({}), 'tls.crt has no certificate in PEM'],
    ['has no key', async ({ pem }) => ({ [KEYS.certificate]: pem.cert }), 'tls.key has no private key'],
    [
      'has the key of another certificate',
      async ({ pem }) => ({ [KEYS.certificate]: pem.cert, [KEYS.key]: (await authorityOf('x')).pem.key }),
      'tls.key is not the key of the certificate in tls.crt',
    ],
    [
      'has the certificate of a server',
      async () => {
        const { pem } = await made(WANTED, validityOf(NOW, DAY));
        return { [KEYS.certificate]: pem.cert, [KEYS.key]: pem.key };
      },
      'the certificate in tls.crt is none of an authority',
    ],
  ])('is none when its Secret %s', async (_, textsOf, problem) => {
    const pair = await authorityOf('plant');
    const keys = keysIn(await textsOf(pair));
    expect(keys).toEqual({ problem: expect.stringContaining(problem) });
    // No error shows anything of a key.
    expect(JSON.stringify(keys)).not.toContain(pair.pem.key.split('\n')[1]);
  });

  test('passes on the certificates between itself and what machines trust', async () => {
    const root = await authorityOf('root');
    const middle = await made({ ...WANTED, subject: 'middle', hosts: [] }, validityOf(NOW, DAY), root, true);
    const pem = { ...middle.pem, cert: middle.pem.cert + root.pem.cert };
    expect(chainOf({ pem, facts: middle.facts })).toBe(bundle([middle.facts]));
    expect(chainOf(root)).toBe('');
  });
});
