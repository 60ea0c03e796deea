import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { hardwareMembers } from './hardware.ts';

let root: string;
beforeEach(() => {
  root = temporaryFolder();
});

function put(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function card(
  name: string,
  { address, kind = '0', bus = 'pci' }: { address: string; kind?: string; bus?: string },
): void {
  put(`sys/class/net/${name}/address`, `${address}\n`);
  put(`sys/class/net/${name}/addr_assign_type`, `${kind}\n`);
  mkdirSync(join(root, `sys/class/net/${name}/device`));
  symlinkSync(`../../../../bus/${bus}`, join(root, `sys/class/net/${name}/device/subsystem`));
}

test('a machine is known by the numbers of its firmware', () => {
  put('sys/class/dmi/id/product_uuid', '4c4c4544-0051\n');
  put('sys/class/dmi/id/board_serial', 'Default string\n');
  put('sys/class/dmi/id/product_serial', 'To be filled by O.E.M.\n');
  put('proc/device-tree/serial-number', '10000000abcdef\0');
  put('proc/cpuinfo', 'processor\t: 0\nSerial\t\t: 00000000deadbeef\n');
  card('eth0', { address: '02:00:00:00:00:01' });
  expect(hardwareMembers(root)).toEqual({
    'product-uuid': '4c4c4544-0051',
    'device-tree-serial': '10000000abcdef',
    'chip-serial': '00000000deadbeef',
  });
});

test('a machine without such numbers is known by the network cards on its board', () => {
  put('sys/class/dmi/id/product_uuid', '03000200-0400-0500-0006-000700080009\n');
  card('eth1', { address: '02:00:00:00:00:02' });
  card('eth0', { address: '02:00:00:00:00:01', bus: 'platform' });
  card('dongle', { address: '02:00:00:00:00:03', bus: 'usb' });
  card('random', { address: '02:00:00:00:00:04', kind: '1' });
  put('sys/class/net/docker0/address', '02:42:00:00:00:01\n');
  expect(hardwareMembers(root)).toEqual({ 'network-cards': '02:00:00:00:00:01 02:00:00:00:00:02' });
});

test('a machine that tells nothing is known by nothing', () => expect(hardwareMembers(root)).toEqual({}));
