import { describe, expect, test } from 'vitest';
import type { Progress } from '../../../rules/conditions.ts';
import { type PartFacts, partFinding, phaseOf } from './condition.ts';

const NOW = Date.parse('2026-05-01T12:00:00Z');
const make = (change: Partial<PartFacts> = {}): PartFacts => ({
  state: { condition: 'RouterReady', hasFiles: true },
  liveness: 'live',
  isDeprovisioned: false,
  now: NOW,
  files: { due: 'aa', here: { digest: 'aa' } },
  ...change,
});
const entry = (progress: Partial<Progress>): Partial<PartFacts> => ({
  state: { condition: 'RouterReady', hasFiles: false, entry: { name: 'router' } },
  entry: { is: 'working', reason: 'Starting', message: 'is being started', ...progress },
});

/** A part with sets of its own, on a machine that reports these files; the list is another one than the machine last had whole. */
const withSets = (
  sets: Record<string, string>,
  here: Partial<NonNullable<PartFacts['files']['here']>>,
): Partial<PartFacts> => ({
  state: { condition: 'RouterReady', hasFiles: true, sets },
  files: { due: 'bb', here: { digest: 'aa', ...here } },
});

describe('the condition of a part', () => {
  test.each([
    ['is True once the machine reports what is sent', {}, 'True', 'OnMachine', 'the machine reports'],
    [
      'names what the controller lacks before anything else',
      {
        state: { condition: 'RouterReady', hasFiles: true, lacks: { reason: 'AuthorityNotReady', message: 'no key' } },
        liveness: 'silent',
      },
      'False',
      'AuthorityNotReady',
      'no key',
    ],
    [
      'is False once a certificate has expired, also of a node that has it',
      { state: { condition: 'CertificatesReady', hasFiles: true, expiresAt: NOW } },
      'False',
      'CertificateExpired',
      'has expired',
    ],
    ['names a node without an agent', { liveness: 'never' }, 'False', 'NotProvisioned', 'provisioning key'],
    ['names a node whose agent left', { isDeprovisioned: true }, 'False', 'NotProvisioned', 'provisioning key'],
    [
      'is Unknown of a node that is offline, and says since when',
      { liveness: 'silent', silentSince: '2026-05-01T11:00:00Z' },
      'Unknown',
      'NodeUnreachable',
      'since 2026-05-01T11:00:00Z',
    ],
    [
      'waits for the present files',
      { files: { due: 'bb', here: { digest: 'aa' } } },
      'False',
      'FilesPending',
      'have changed',
    ],
    [
      'waits for the files of another host before they are made',
      { state: { condition: 'CertificatesReady', hasFiles: true, isOutdated: true } },
      'False',
      'FilesPending',
      'have changed',
    ],
    [
      'names agents that report no files',
      { files: { due: 'bb', here: undefined } },
      'False',
      'FilesPending',
      'another make',
    ],
    [
      'has the words of the machine that cannot keep the files',
      { files: { due: 'bb', here: { digest: 'aa', problem: 'no space left on device' } } },
      'False',
      'FilesFailed',
      'no space left on device',
    ],
    [
      'is True while only files of other parts have not arrived, or cannot be kept',
      withSets({ router: '1' }, { sets: { router: '1', bus: '2' }, problem: 'bus: no space' }),
      'True',
      'OnMachine',
      '',
    ],
    [
      'waits for a set of its own that is another one',
      withSets({ router: '1', certificate: '2' }, { sets: { router: '1', certificate: '1' } }),
      'False',
      'FilesPending',
      'have changed',
    ],
    [
      'waits for a set of its own that the machine does not report, whatever the digest of the list is',
      withSets({ router: '1' }, { digest: 'bb', sets: {} }),
      'False',
      'FilesPending',
      'have changed',
    ],
    [
      'is judged by the list of all files of an agent that does not report each set',
      withSets({ router: '1' }, {}),
      'False',
      'FilesPending',
      'have changed',
    ],
    [
      'names the holder of a port',
      entry({ is: 'stalled', reason: 'PortTaken', message: 'the port 5671/tcp is held by shop/web' }),
      'False',
      'PortTaken',
      'the microservice "router": the port 5671/tcp is held by shop/web',
    ],
    [
      'names the policy of the machine',
      entry({ is: 'stalled', reason: 'PolicyRefused', message: "the machine's policy refuses it: hostNetworkMode" }),
      'False',
      'PolicyRefused',
      'hostNetworkMode',
    ],
    [
      'waits for what the running bus server lacks',
      { state: { condition: 'BusReady', hasFiles: true }, server: { isCurrent: false } },
      'False',
      'BusServerBehind',
      'present tokens',
    ],
    [
      'has the words of the bus server that refuses them',
      { state: { condition: 'BusReady', hasFiles: true }, server: { isCurrent: false, problem: 'no such key' } },
      'False',
      'BusServerRefuses',
      'no such key',
    ],
    [
      'waits for what the running router lacks',
      { ...entry({ is: 'done', reason: 'AllRunning' }), server: { isCurrent: false } },
      'False',
      'RouterBehind',
      'certificates',
    ],
    [
      'has the words of the router that refuses its configuration',
      { ...entry({ is: 'done', reason: 'AllRunning' }), server: { isCurrent: false, problem: 'Duplicate name' } },
      'False',
      'RouterRefuses',
      'Duplicate name',
    ],
    ['is True while the server has everything', { server: { isCurrent: true } }, 'True', 'OnMachine', ''],
    ['is True while its microservice runs', entry({ is: 'done', reason: 'AllRunning' }), 'True', 'OnMachine', ''],
  ] satisfies [string, Partial<PartFacts>, string, string, string][])('%s', (_, change, status, reason, message) => {
    const found = partFinding(make(change));
    expect(found).toMatchObject({ status, reason });
    expect(found.message).toContain(message);
  });
});

describe('the phase of a platform', () => {
  const of = (...reasons: [string, string][]) =>
    phaseOf(reasons.map(([status, reason]) => ({ status, reason, message: `because ${reason}` })) as never);

  test.each([
    ['Ready', [], undefined],
    ['Ready', [['True', 'OnMachine']], undefined],
    [
      'Progressing',
      [
        ['True', 'OnMachine'],
        ['False', 'FilesPending'],
      ],
      undefined,
    ],
    ['Progressing', [['Unknown', 'NodeUnreachable']], undefined],
    [
      'Pending',
      [
        ['False', 'NotProvisioned'],
        ['False', 'FilesPending'],
      ],
      undefined,
    ],
    [
      'Failed',
      [
        ['False', 'FilesPending'],
        ['False', 'PortTaken'],
      ],
      'because PortTaken',
    ],
  ] satisfies [string, [string, string][], string | undefined][])(
    'is %s with the conditions %j',
    (phase, reasons, error) => {
      expect(of(...reasons)).toEqual({ phase, ...(error && { error }) });
    },
  );
});
