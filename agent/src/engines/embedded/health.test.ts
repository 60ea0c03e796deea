import { describe, expect, test } from 'vitest';
import { afterCheck, checkEvery, healthOf, outputOf, type Probe, probeOf } from './health.ts';

const probe = probeOf({ test: ['CMD', 'true'], interval: 10, retries: 2 }) as Probe;
const fresh = healthOf({ name: 'n', attempt: 1 });
const failed = { exitCode: 1, output: 'x'.repeat(5000) };
const passed = { exitCode: 0, output: '' };

describe('health', () => {
  test.each([
    [
      ['CMD', '/a', 'b'],
      ['/a', 'b'],
    ],
    [
      ['CMD-SHELL', 'a | b'],
      ['/bin/sh', '-c', 'a | b'],
    ],
    [
      ['/a', 'b'],
      ['/a', 'b'],
    ],
  ])('a check %j runs %j', (given, command) => {
    expect(probeOf({ test: given })).toMatchObject({ command, interval: 30_000, timeout: 30_000, retries: 3 });
  });

  test('a check without a test, or with NONE, is none', () => {
    expect([probeOf(undefined), probeOf({ test: [] }), probeOf({ test: ['NONE'] })]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('health is unhealthy after so many failures in a row, and healthy after one success', () => {
    const times = { startedAt: 0, now: 1 };
    const once = afterCheck(probe, fresh, failed, times);
    expect(once).toMatchObject({ status: 'starting', failures: 1, failedCheck: { exitCode: 1 } });
    expect(once.failedCheck?.output).toHaveLength(1024);
    const twice = afterCheck(probe, once, failed, times);
    expect(twice.status).toBe('unhealthy');
    const well = afterCheck(probe, twice, passed, times);
    expect(well).toEqual({ attempt: 1, status: 'healthy', failures: 0 });
    expect(afterCheck(probe, well, failed, times).status).toBe('healthy');
  });

  test('a check that fails in the start period does not count, and is carried out more often', () => {
    const patient = { ...probe, startPeriod: 60_000, startInterval: 1000 };
    const times = { startedAt: 0, now: 59_999 };
    const before = [1, 2, 3].reduce((health) => afterCheck(patient, health, failed, times), fresh);
    expect(before).toMatchObject({ status: 'starting', failures: 0 });
    expect(checkEvery(patient, before, 0, 59_999)).toBe(1000);
    expect(checkEvery(patient, before, 0, 60_000)).toBe(10_000);
    expect(checkEvery(patient, { ...before, status: 'healthy' }, 0, 1)).toBe(10_000);
  });

  test('a check keeps the beginning alone of its output', () => {
    const outputs = { stdout: Buffer.from('ä'.repeat(100_000)), stderr: Buffer.from('more') };
    expect(outputOf(outputs)).toBe('ä'.repeat(2048));
    expect(outputOf({ ...outputs, stdout: Buffer.from('some ') })).toBe('some more');
  });

  test('health of an earlier run says nothing about this run', () => {
    const health = { attempt: 1, status: 'healthy' as const, failures: 0 };
    expect(healthOf({ name: 'n', attempt: 1, health })).toBe(health);
    expect(healthOf({ name: 'n', attempt: 2, health }).status).toBe('starting');
  });
});
