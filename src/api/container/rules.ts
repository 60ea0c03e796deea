import type { Rule } from '../rules.ts';
import { SYSCTLS } from './parts.ts';

const NET_SYSCTLS = SYSCTLS.filter((key) => key.startsWith('net.'));
const IPC_SYSCTLS = SYSCTLS.filter((key) => key.startsWith('kernel.shm'));

/** Rules between container fields. */
export const CONTAINER_RULES: readonly Rule[] = [
  {
    rule: 'unique',
    list: 'ports',
    by: { internal: 0, protocol: 'tcp' },
    message: 'a port of the container is mapped once for each protocol',
  },
  {
    rule: 'atMostOne',
    of: ['commands', 'cmd'],
    message: 'commands and cmd are two spellings of one field: give one',
  },
  {
    rule: 'unique',
    list: 'ports',
    by: { external: 0, protocol: 'tcp' },
    message: 'two ports have the same external port and protocol',
  },
  { rule: 'not', field: 'memorySwap', value: 0, message: 'memorySwap must be -1 or greater than 0' },
  {
    rule: 'requires',
    field: 'memorySwap',
    needs: 'memoryLimit',
    positive: true,
    message: 'memorySwap needs memoryLimit',
  },
  {
    rule: 'containsExcludes',
    field: 'runAsUser',
    part: ':',
    other: 'runAsGroup',
    message: 'runAsUser with a group excludes runAsGroup',
  },
  {
    rule: 'trueExcludesKeys',
    field: 'hostNetworkMode',
    other: 'sysctls',
    keys: NET_SYSCTLS,
    message: 'net.* sysctls cannot be set in host network mode',
  },
  {
    rule: 'equalsExcludesKeys',
    field: 'ipcMode',
    value: 'host',
    other: 'sysctls',
    keys: IPC_SYSCTLS,
    message: 'IPC sysctls cannot be set with ipcMode host',
  },
];
