import { expect } from 'vitest';
import type { Machine } from '../../hack/machine.ts';

/** Types a command in a shell of root on a machine. */
export const typeOn = (machine: Machine) => async (command: string) => {
  const { code, out } = await machine.sh(`exec 2>&1\ncd /root\n${command}`);
  return { code, lines: out.split('\n') };
};

/** Types what has to succeed; answers what it prints. */
export const typedOn = (machine: Machine) => async (command: string) => {
  const { code, lines } = await typeOn(machine)(command);
  expect(code, `$ ${command}\n${lines.join('\n')}`).toBe(0);
  return lines.join('\n').trim();
};
