import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

/** Another boot of the machine: what the kernel says of it is SKERRY_BOOT_ID. */
const { readFileSync } = fs;
fs.readFileSync = ((path: string, ...rest: []) =>
  path === '/proc/sys/kernel/random/boot_id'
    ? `${process.env.SKERRY_BOOT_ID}\n`
    : readFileSync(path, ...rest)) as typeof readFileSync;
syncBuiltinESMExports();
