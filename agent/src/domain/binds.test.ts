import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { until } from '../engines/_contract.ts';
import { mountedPlaces, readText } from '../system/disk.ts';
import { type Bind, bindConflict, exchanged, type Locations } from './binds.ts';
import { PLAIN_PLACES } from './policy.ts';

const rw = (source: string): Bind => ({ source, writable: true });
const ro = (source: string): Bind => ({ source, writable: false });

/** `/mnt/alias` shows `/srv/data`, as a bind mount does. */
const ALIASED: Locations = {
  locate: (paths) => paths.map((path) => path.replace(/^\/mnt\/alias(?=\/|$)/, '/srv/data')),
  mountsBelow: (path) => ('/mnt/alias'.startsWith(`${path}/`) ? ['/mnt/alias'] : []),
};

/** own binds, those of another, whether the container is new, and whether that is refused */
const CASES: Record<string, [Bind, Bind, boolean, boolean, Locations?]> = {
  'a bind below what another may write to is refused': [rw('/srv/data/sub'), rw('/srv/data'), true, true],
  'a container that is there is refused its start as well': [rw('/srv/data/sub'), rw('/srv/data'), false, true],
  'reading below what another may write to is refused': [ro('/srv/data/sub'), rw('/srv/data'), true, true],
  'a bind far below is refused': [rw('/srv/data/a/b/c'), rw('/srv/data'), true, true],
  'a new writer above what another binds is refused': [rw('/srv/data'), ro('/srv/data/sub'), true, true],
  'a writer that is there may start again': [rw('/srv/data'), ro('/srv/data/sub'), false, false],
  'a bind below what another only reads is allowed': [rw('/srv/data/sub'), ro('/srv/data'), true, false],
  'two that bind the same directory are allowed': [rw('/srv/data'), rw('/srv/data'), true, false],
  'a name that only begins alike is none below': [rw('/srv/data-2'), rw('/srv/data'), true, false],
  'neighbours are allowed': [rw('/srv/a'), rw('/srv/b'), true, false],
  'a writer of the same directory by another mount is seen': [rw('/mnt/alias/x'), rw('/srv/data'), true, true, ALIASED],
  'a writer above by another mount is seen': [rw('/mnt/alias/x'), rw('/srv'), true, true, ALIASED],
  'a writer of a directory that holds the mount is seen': [rw('/srv/data/x'), rw('/mnt'), true, true, ALIASED],
};

describe('binds beside each other', () => {
  for (const [name, [own, other, isNew, refused, locations = PLAIN_PLACES]] of Object.entries(CASES))
    test(name, () => {
      const found = bindConflict({ name: '', binds: [own] }, [{ name: 'shop.db', binds: [other] }], isNew, locations);
      if (refused) expect(found).toMatch(/may not be bound.*shop\.db/);
      else expect(found).toBeUndefined();
    });
});

test('the machine is asked once where paths lie, however many containers there are', () => {
  const others = Array.from({ length: 200 }, (_, index) => ({
    name: `shop.m${index}`,
    binds: [rw(`/srv/${index}/data`), ro(`/etc/app/${index}`)],
  }));
  let asked = 0;
  const counted: Locations = {
    mountsBelow: () => [],
    locate: (paths) => {
      asked++;
      return PLAIN_PLACES.locate(paths);
    },
  };
  expect(bindConflict({ name: '', binds: [rw('/srv/new'), ro('/etc/new')] }, others, true, counted)).toBeUndefined();
  expect(asked).toBe(1);
});

test.runIf(process.platform === 'linux')(
  'what a process that has just ended had mounted is not known, and no error',
  async () => {
    // Its parent became another program, which waits for nobody.
    const parent = spawn('sh', ['-c', 'sleep 0 & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] });
    try {
      const [said] = (await once(parent.stdout, 'data')) as [Buffer];
      const pid = Number(said);
      await until('a zombie', () => readText(`/proc/${pid}/stat`)?.includes(') Z '));
      expect(mountedPlaces(pid)).toEqual([]);
    } finally {
      parent.kill();
    }
  },
);

test('a source that a container has not mounted is named', () => {
  expect(exchanged(['/srv/a', '/srv/b'], ['/proc', '/srv/a', '/srv/b'], PLAIN_PLACES)).toBeUndefined();
  expect(exchanged(['/srv/a', '/srv/b'], ['/srv/a', '/etc'], PLAIN_PLACES)).toBe('/srv/b');
});
