import { readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { readText } from './disk.ts';

/**
 * What the firmware of a machine says of it. Each is of the board or of the chip, and stays over restarts, new disks, new systems and
 * updates of the kernel; a machine in a cloud has a `product-uuid` that its copies do not have.
 */
const FIRMWARE: Readonly<Record<string, string>> = {
  'product-uuid': 'sys/class/dmi/id/product_uuid',
  'product-serial': 'sys/class/dmi/id/product_serial',
  'board-serial': 'sys/class/dmi/id/board_serial',
  'device-tree-serial': 'proc/device-tree/serial-number',
};

/** Texts that makers leave in every machine of a kind. */
const EMPTY =
  /^(?:|none|n\/a|default string|not (?:specified|applicable|available|settable)|to be filled by o\.?e\.?m\.?|system serial number|base board serial number|unknown|invalid|[0-]+|[fF-]+|0*123456789\w*|03000200-0400-0500-0006-000700080009)$/i;

/**
 * What tells the hardware of this machine from any other: member -> text. Where the firmware has no number of its own, the burnt-in
 * addresses of the network cards on its board. Empty on a machine that has neither.
 */
export function hardwareMembers(root = '/'): Record<string, string> {
  const members: Record<string, string> = {};
  for (const [name, path] of Object.entries(FIRMWARE)) {
    const text = kernelText(join(root, path));
    if (text !== undefined && !EMPTY.test(text)) members[name] = text;
  }
  const chip = /^Serial\s*:\s*(\w{1,64})\s*$/m.exec(kernelText(join(root, 'proc/cpuinfo')) ?? '')?.[1];
  if (chip !== undefined && !EMPTY.test(chip)) members['chip-serial'] = chip;
  if (Object.keys(members).length > 0) return members;
  const cards = builtInCards(join(root, 'sys/class/net'));
  return cards.length > 0 ? { 'network-cards': cards.join(' ') } : {};
}

/** Addresses that are burnt in (0) into cards of the board: not of USB, nor made by a program. */
function builtInCards(directory: string): string[] {
  return names(directory)
    .filter((name) => kernelText(join(directory, name, 'addr_assign_type')) === '0')
    .filter((name) => /\/(?:pci|platform)$/.test(target(join(directory, name, 'device/subsystem'))))
    .flatMap((name) => kernelText(join(directory, name, 'address')) ?? [])
    .filter((address) => /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/.test(address) && address !== '00:00:00:00:00:00')
    .sort();
}

function kernelText(path: string): string | undefined {
  try {
    return readText(path)?.replaceAll('\0', '').trim();
  } catch {
    return undefined;
  }
}

function names(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function target(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
