import { expect, test } from 'vitest';
import { containerIdOf } from './own-container.ts';

const ID = 'a1'.repeat(32);

test.each([
  ['docker', `/var/lib/docker/containers/${ID}/hostname /etc/hostname`],
  ['podman', `/containers/storage/overlay-containers/${ID}/userdata/hosts /etc/hosts`],
])('the container that an agent runs in is known in %s', (_, root) => {
  const others = '1 2 0:1 / / rw - overlay overlay rw\n3 2 8:1 / /etc/ssl rw - ext4 /dev/vda rw\n';
  expect(containerIdOf(`${others}4 2 8:1 ${root} rw - ext4 /dev/vda rw\n`)).toBe(ID);
});

test('in the network of another container, whose files are mounted then, podman still names the own one', () => {
  const other = 'b2'.repeat(32);
  const lines = [
    `4 2 8:1 /containers/overlay-containers/${other}/userdata/hosts /etc/hosts rw - ext4 /dev/vda rw`,
    `5 2 8:1 /containers/overlay-containers/${ID}/userdata/.containerenv /run/.containerenv rw - ext4 /dev/vda rw`,
  ];
  expect(containerIdOf(lines.join('\n'))).toBe(ID);
});

test('on a machine no id is taken for a container, also where paths have one', () => {
  const lines = [
    `1 2 0:1 / / rw - ext4 /dev/vda rw`,
    `3 2 0:1 / /var/lib/docker/overlay2/${ID}/merged rw - overlay x rw`,
  ];
  expect(containerIdOf(lines.join('\n'))).toBeUndefined();
});
