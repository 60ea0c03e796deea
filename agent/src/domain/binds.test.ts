import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Bind } from '../engine-port/container.ts';
import { until } from '../engines/_contract.ts';
import { mountedPlaces, readText } from '../machine/disk.ts';
import { PLAIN_PLACES } from './_places.ts';
import { bindConflict, exchanged, type Locations } from './binds.ts';

const rw = (source: string): Bind => ({ source, writable: true });
const ro = (source: string): Bind => ({ source, writable: false });

/** `/mnt/alias` shows `/srv/data`, as a bind mount does. */
const ALIASED: Locations = {
  locate: (paths) => paths.map((path) => path.replace(/^\/mnt\/alias(?=\/|$)/, '/srv/data')),
  mountsBelow: (path) => ('/mnt/alias'.startsWith(`${path}/`) ? ['/mnt/alias'] : []),
};

/** own bind, bind of another microservice, whether the container is new, whether it is refused */
const CASES: Record<string, [Bind, Bind, boolean, boolean, Locations?]> = {
  'a bind below a writable bind of another microservice is refused': [rw('/srv/data/sub'), rw('/srv/data'), true, true],
  'a start of an existing container below a writable bind of another is refused': [
    rw('/srv/data/sub'),
    rw('/srv/data'),
    false,
    true,
  ],
  'a read-only bind below a writable bind of another is refused': [ro('/srv/data/sub'), rw('/srv/data'), true, true],
  'a bind several levels below a writable bind of another is refused': [
    rw('/srv/data/a/b/c'),
    rw('/srv/data'),
    true,
    true,
  ],
  'a writable bind of a new container above a bind of another is refused': [
    rw('/srv/data'),
    ro('/srv/data/sub'),
    true,
    true,
  ],
  'a writable bind of an existing container above a bind of another is allowed': [
    rw('/srv/data'),
    ro('/srv/data/sub'),
    false,
    false,
  ],
  'a bind below a read-only bind of another is allowed': [rw('/srv/data/sub'), ro('/srv/data'), true, false],
  'two binds of the same directory are allowed': [rw('/srv/data'), rw('/srv/data'), true, false],
  'a path that only shares a prefix of its name is allowed': [rw('/srv/data-2'), rw('/srv/data'), true, false],
  'binds of sibling directories are allowed': [rw('/srv/a'), rw('/srv/b'), true, false],
  'a writable bind of the same directory through another mount is refused': [
    rw('/mnt/alias/x'),
    rw('/srv/data'),
    true,
    true,
    ALIASED,
  ],
  'a writable bind of a parent through another mount is refused': [rw('/mnt/alias/x'), rw('/srv'), true, true, ALIASED],
  'a writable bind of a directory that contains the mount is refused': [
    rw('/srv/data/x'),
    rw('/mnt'),
    true,
    true,
    ALIASED,
  ],
};

describe('binds of two microservices', () => {
  for (const [name, [own, other, isNew, refused, locations = PLAIN_PLACES]] of Object.entries(CASES))
    test(name, () => {
      const found = bindConflict({ name: '', binds: [own] }, [{ name: 'shop.db', binds: [other] }], isNew, locations);
      if (refused) expect(found).toMatch(/may not be bound.*shop\.db/);
      else expect(found).toBeUndefined();
    });
});

test('bindConflict resolves all paths in one call, however many containers there are', () => {
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
  'the mounts of a process that has just ended are read as none, without an error',
  async () => {
    // It ends when its parent has become another program, which does not reap its children.
    const script = 'cat <&3 & echo $!; exec sleep 60';
    const parent = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore', 'pipe'] });
    try {
      const [output] = (await once(parent.stdout as Readable, 'data')) as [Buffer];
      const pid = Number(output);
      await until('the other program', () => readText(`/proc/${parent.pid}/comm`)?.trim() === 'sleep');
      (parent.stdio[3] as Writable).end();
      await until('a zombie', () => readText(`/proc/${pid}/stat`)?.includes(') Z '));
      expect(mountedPlaces(pid)).toEqual([]);
    } finally {
      parent.kill();
    }
  },
);

test('exchanged() returns the source that a container has not mounted', () => {
  expect(exchanged(['/srv/a', '/srv/b'], ['/proc', '/srv/a', '/srv/b'], PLAIN_PLACES)).toBeUndefined();
  expect(exchanged(['/srv/a', '/srv/b'], ['/srv/a', '/etc'], PLAIN_PLACES)).toBe('/srv/b');
});
