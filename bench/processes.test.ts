import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { cpuMsOf, cpuOfStat, memoryOf, memoryOfRollup, processesNaming, watchUsage, writtenOfIo } from './processes.ts';

const ROLLUP = `aaaae0000000-ffffe0000000 ---p 00000000 00:00 0                          [rollup]
Rss:               58236 kB
Pss:               31052 kB
Pss_Dirty:         20012 kB
Shared_Clean:      33000 kB
Shared_Dirty:          4 kB
Private_Clean:      5220 kB
Private_Dirty:     20012 kB
`;

describe('/proc', () => {
  test('CPU time is the sum of user and system time', () => {
    const stat = '4711 (node) S 1 4711 4711 0 -1 4194560 20533 0 7 0 123 45 6 7 20 0 11 0 1234 999 100';
    expect(cpuOfStat(stat)).toBe(1680);
  });

  test('a command may contain blanks and parentheses', () => {
    const stat = '4711 (a) R (b 1) S 1 4711 4711 0 -1 4194560 20533 0 7 0 100 50 0 0 20 0 11 0 1234 999 100';
    expect(cpuOfStat(stat)).toBe(1500);
  });

  test('memory is in bytes, and Pss_Dirty is not counted as Private_Dirty', () => {
    expect(memoryOfRollup(ROLLUP)).toEqual({ rss: 58236 * 1024, privateDirty: 20012 * 1024 });
  });

  test('cancelled writes do not count as written', () => {
    const io = 'rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n';
    expect(writtenOfIo(io)).toBe(4096);
  });
});

describe.runIf(process.platform === 'linux')('the test process', () => {
  test('has CPU time and memory', () => {
    expect(cpuMsOf(process.pid)).toBeGreaterThan(0);
    const { rss, privateDirty } = memoryOf(process.pid);
    expect(rss).toBeGreaterThan(privateDirty);
    expect(privateDirty).toBeGreaterThan(0);
  });

  test('has the CPU time between two samples, and the total is the sum', () => {
    const used = watchUsage({ one: process.pid, two: process.pid });
    const { cpuMs } = used();
    expect(cpuMs.total).toBe((cpuMs.one ?? 0) + (cpuMs.two ?? 0));
  });

  test('finds the processes of an engine by the folders that their command lines name', async () => {
    const folder = `/nowhere/${process.pid}`;
    const waiting = ['-c', 'read _'];
    const stdio = ['pipe', 'ignore', 'ignore'] as const;
    const daemon = spawn('sh', [...waiting, `--root=${folder}/data`], { stdio: [...stdio] });
    const helper = spawn('sh', [...waiting, folder], { stdio: [...stdio], argv0: 'shim-of-it' });
    const other = spawn('sh', waiting, { stdio: [...stdio] });
    try {
      await Promise.all([daemon, helper, other].map((each) => once(each, 'spawn')));
      expect(processesNaming([folder], /shim/)).toEqual({ daemons: [daemon.pid], helpers: [helper.pid] });
    } finally {
      for (const each of [daemon, helper, other]) each.kill('SIGKILL');
    }
  });
});
